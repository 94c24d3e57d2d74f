// Accesses of 8 and 16 bytes to global memory. Written out for the device, where the compiler would
// take some of them apart, and would not know that a pointer that was itself loaded is to global
// memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace asyncmesh::kernels::device {

__device__ inline uint4 load_16_bytes(const void* from) {
#ifdef __CUDA_ARCH__
  uint4 words;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return words;
#else
  return *static_cast<const uint4*>(from);
#endif
}

__device__ inline uint2 load_8_bytes(const void* from) {
#ifdef __CUDA_ARCH__
  uint2 words;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(words.x), "=r"(words.y)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return words;
#else
  return *static_cast<const uint2*>(from);
#endif
}

__device__ inline void store_16_bytes(void* to, uint4 words) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(words.x), "r"(words.y), "r"(words.z),
                 "r"(words.w)
               : "memory");
#else
  *static_cast<uint4*>(to) = words;
#endif
}

__device__ inline void store_8_bytes(void* to, uint2 words) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v2.u32 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(words.x), "r"(words.y)
               : "memory");
#else
  *static_cast<uint2*>(to) = words;
#endif
}

// The same pointer; the compiler may take what is behind it for global memory.
template <typename T>
__device__ T* in_global(T* pointer) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(pointer));
#endif
  return pointer;
}

}  // namespace asyncmesh::kernels::device
