// Stands in for CUDA's header where the tests compile the CUDA sources as C++: first on the include
// path, it turns the kernels into plain functions and their launches into runs of the executor.
#pragma once

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

namespace asyncmesh::kernels {

// As in kernels/cuda/launch.h, for which these stand in.
template <typename... Params, typename... Args>
void launch_kernel(void (*kernel)(Params...), const dim3& grid, const dim3& block,
                   size_t shared_bytes, void* /*stream*/, const Args&... args) {
  simt::run(grid, block, shared_bytes, [&] { kernel(args...); });
}

template <typename T>
T* dynamic_shared() {
  return static_cast<T*>(simt::dynamic_shared_memory());
}

}  // namespace asyncmesh::kernels
