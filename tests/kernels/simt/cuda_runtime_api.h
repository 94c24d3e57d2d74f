// Stands in for CUDA's header where the tests compile the CUDA sources as C++: first on the include
// path, it turns the kernels into plain functions and their launches into runs of the executor.
//
// What it does not declare the CUDA sources cannot call: no copy, allocation, event or
// synchronisation, which a graph would not capture.
#pragma once

#include <type_traits>
#include <utility>

#include "tests/kernels/simt/atomics.h"
#include "tests/kernels/simt/device_functions.h"
#include "tests/kernels/simt/executor.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static

using dim3 = simt::Dim3;

// What one access moves; aliases whatever it is laid over, as on a device.
struct [[gnu::may_alias]] alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct [[gnu::may_alias]] alignas(8) uint2 {
  unsigned x, y;
};

// A device of two multiprocessors: small grids, whose threads take turns.
enum cudaError_t { cudaSuccess = 0 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 2;
  return cudaSuccess;
}

namespace simt {

template <typename T>
void add_parameter(Launch& launch, const T& value) {
  const size_t size = sizeof(T);
  const auto add = [&](const void* bytes, size_t count) {
    const auto* const from = static_cast<const std::byte*>(bytes);
    launch.parameters.insert(launch.parameters.end(), from, from + count);
  };
  add(&size, sizeof(size));
  if (std::is_scalar_v<T> || std::has_unique_object_representations_v<T>) add(&value, size);
}

}  // namespace simt

namespace asyncmesh::kernels {

// As in kernels/cuda/launch.h, for which these stand in.
template <typename... Params, typename... Args>
void launch_kernel(void (*kernel)(Params...), const dim3& grid, const dim3& block,
                   size_t shared_bytes, void* stream, const Args&... args) {
  simt::Launch launch = {
      reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream, {}};
  (simt::add_parameter<std::remove_cvref_t<Params>>(launch, args), ...);
  simt::launch(std::move(launch), [&] { kernel(args...); });
}

template <typename T>
T* dynamic_shared() {
  return static_cast<T*>(simt::dynamic_shared_memory());
}

}  // namespace asyncmesh::kernels
