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

uint64_t subset_elements(const TensorView* tensors, uint32_t tensor_count, const Subset& subset);

void cuda_pack(const TensorView* tensors, uint32_t tensor_count, const Subset& subset,
               Encoding encoding, float* snapshot, std::byte* encoded, void* stream);

void cuda_apply(const TensorView* tensors, uint32_t tensor_count, const Subset& subset,
                const ApplyArgs& args, const float* snapshot, const float* mean,
                const std::byte* own_encoded, Encoding encoding, float* ema, uint64_t* visited,
                const TensorView* mirror, void* stream);

uint32_t cuda_average(const std::byte* const* values, const float* weights, uint32_t members,
                      Encoding encoding, uint64_t count, float* mean, uint64_t* not_finite_out,
                      void* stream);

void cuda_nadamw(float* w, const float* gradient, float* m, float* v, uint64_t count,
                 const NadamwArgs& args, float* mirror, void* stream);
void cuda_sum_of_squares(const float* values, uint64_t count, double* sums, void* stream);
void cuda_encode(const float* values, uint64_t count, Encoding encoding, std::byte* out,
                 void* stream);
void cuda_decode(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                 void* stream);

}  // namespace asyncmesh::kernels
