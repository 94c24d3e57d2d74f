// The one way to launch a kernel, and to its dynamic shared memory. The tests compile the .cu files
// as C++ with a <cuda_runtime_api.h> of their own, which defines both for an executor on the CPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

// Before a loop: unrolled, so that arrays indexed by its counter stay in registers; or left as it
// is, so that a large body is there once.
#ifdef __CUDACC__
#define ASYNCMESH_UNROLLED _Pragma("unroll")
#define ASYNCMESH_ROLLED _Pragma("unroll 1")
#else
#define ASYNCMESH_UNROLLED
#define ASYNCMESH_ROLLED
#endif

#ifdef __CUDACC__
namespace asyncmesh::kernels {

// `grid` and `block` are not empty. `stream` is a cudaStream_t. A refused launch is left in
// cudaPeekAtLastError().
template <typename... Params, typename... Args>
void launch_kernel(void (*kernel)(Params...), const dim3& grid, const dim3& block,
                   size_t shared_bytes, void* stream, const Args&... args) {
  kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream)>>>(args...);
}

// The `shared_bytes` of the launch, aligned to 16.
template <typename T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char asyncmesh_dynamic_shared[];
  return reinterpret_cast<T*>(asyncmesh_dynamic_shared);
}

}  // namespace asyncmesh::kernels
#endif
