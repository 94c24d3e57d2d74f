// Sums over the threads of a group, in a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/geometry.h"

namespace asyncmesh::kernels::device {

// Thread blocks of a sum of so many kinds: fixed, so that the order of additions depends on shapes
// only.
__host__ __device__ constexpr uint32_t sum_groups(uint32_t kinds) { return 1024 / kinds; }

// Each thread's sum of `kSums` kinds; what its group adds to `partial`, slots of sum_groups each.
template <uint32_t kSums>
__device__ void add_group_sums(const double (&sums)[kSums], double* partial) {
  __shared__ double tree[kThreads];
  for (uint32_t kind = 0; kind < kSums; ++kind) {
    tree[threadIdx.x] = sums[kind];
    for (uint32_t half = kThreads / 2; half != 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    }
    if (threadIdx.x == 0) partial[kind * sum_groups(kSums) + blockIdx.x] += tree[0];
    __syncthreads();
  }
}

}  // namespace asyncmesh::kernels::device
