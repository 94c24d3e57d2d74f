// The CPU entries of the table that have a source of their own; contract in kernels.h.
#pragma once

#include "kernels/kernels.h"

namespace asyncmesh::kernels {

uint64_t subset_elements(const TensorView* tensors, uint32_t tensor_count, const Subset& subset);

void cpu_pack(const TensorView* tensors, uint32_t tensor_count, const Subset& subset,
              Encoding encoding, float* snapshot, std::byte* encoded, void* stream);

uint32_t cpu_average(const std::byte* const* values, const float* weights, uint32_t members,
                     Encoding encoding, uint64_t count, float* mean, uint64_t* not_finite_out,
                     void* stream);

void cpu_apply(const TensorView* tensors, uint32_t tensor_count, const Subset& subset,
               const ApplyArgs& args, const float* snapshot, const float* mean,
               const std::byte* own_encoded, Encoding encoding, float* ema, uint64_t* visited,
               const TensorView* mirror, void* stream);

}  // namespace asyncmesh::kernels
