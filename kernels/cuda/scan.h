// Running sums over the threads of a group.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/geometry.h"

namespace asyncmesh::kernels::device {

// The sum up to and with the caller's value. All threads of the group call it.
template <typename T>
__device__ T inclusive_scan(T value) {
  __shared__ T warps[kThreads / kWarp];
  const uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    const T before = __shfl_up_sync(0xFFFFFFFFU, value, step);
    if (lane >= step) value += before;
  }
  if (lane == kWarp - 1) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  for (uint32_t warp = 0; warp < threadIdx.x / kWarp; ++warp) value += warps[warp];
  __syncthreads();
  return value;
}

// Replaces each value by the sum of those before it; returns the sum of all. By one group.
template <typename T>
__device__ T scan_array(T* values, uint64_t count) {
  __shared__ T upto;
  T before = 0;
  for (uint64_t first = 0; first < count; first += kThreads) {
    const uint64_t i = first + threadIdx.x;
    const T own = i < count ? values[i] : 0;
    const T sum = inclusive_scan(own);
    if (i < count) values[i] = before + sum - own;
    if (threadIdx.x == kThreads - 1) upto = sum;
    __syncthreads();
    before += upto;
    __syncthreads();
  }
  return before;
}

}  // namespace asyncmesh::kernels::device
