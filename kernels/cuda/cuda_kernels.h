// The CUDA entries of the table (contract in kernels.h) and the shape of their launches.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {

inline constexpr uint32_t kThreads = 256;
inline constexpr uint32_t kLanes = 32;         // threads per block of parameters: one warp
inline constexpr uint64_t kMostGroups = 4096;  // thread blocks; beyond that, threads take turns

// Thread blocks for `items` pieces of work of which one thread block takes `per_group` at a time.
constexpr uint32_t groups_for(uint64_t items, uint64_t per_group) {
  const uint64_t groups = (items + per_group - 1) / per_group;
  return static_cast<uint32_t>(groups < kMostGroups ? groups : kMostGroups);
}

uint64_t subset_elements(const ParameterTable& table, const Subset& subset);

void cuda_partition_pack(const ParameterTable& table, const Subset& subset, const Wire& wire,
                         float* snapshot, std::byte* encoded, const Execution& on);
uint32_t cuda_average(const Contributions& from, uint64_t count, float* mean,
                      uint64_t* not_finite_out, const Execution& on);
void cuda_apply(const ParameterTable& table, const Subset& subset, const ApplyArgs& args,
                const ApplyArrays& arrays, const Execution& on);
void cuda_nadamw(const NadamwArrays& arrays, uint64_t count, const NadamwArgs& args,
                 const Execution& on);
void cuda_sum_of_squares(const float* values, uint64_t count, double* sums, const Execution& on);
void cuda_quantise(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                   std::byte* out, const Execution& on);
void cuda_dequantise(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                     const Execution& on);

}  // namespace asyncmesh::kernels
