// The CUDA entries of the table; contract in kernels.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/geometry.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels {

uint64_t subset_elements(const ParameterTable& table, const Subset& subset);

void cuda_partition_pack(const ParameterTable& table, const Subset& subset, const Wire& wire,
                         float* snapshot, std::byte* encoded, const Execution& on);
void cuda_partition_unpack(const ParameterTable& table, const Subset& subset, Encoding encoding,
                           const std::byte* encoded, const Execution& on);
uint32_t cuda_average(const Contributions& from, uint64_t count, float* mean,
                      uint64_t* not_finite_out, const Execution& on);
void cuda_apply(const ParameterTable& table, const Subset& subset, const ApplyArgs& args,
                const ApplyArrays& arrays, const Execution& on);

size_t cuda_top_change_workspace(uint64_t elements, uint64_t k);
void cuda_top_change(const Change& change, uint64_t k, Threshold* threshold, uint32_t* indices,
                     void* workspace, const Execution& on);
void cuda_index_pack(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                     const Wire& wire, const Feedback& feedback, std::byte* encoded,
                     const Execution& on);
void cuda_index_unpack(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                       Encoding encoding, const std::byte* encoded, const Execution& on);
void cuda_index_accumulate(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                           Encoding encoding, const std::byte* encoded, float weight,
                           const Execution& on);
void cuda_encode_indices(const uint32_t* indices, uint64_t count, std::byte* stream,
                         uint64_t* bytes_out, const Execution& on);
void cuda_decode_indices(const std::byte* stream, uint64_t bytes, uint64_t count, uint64_t elements,
                         uint32_t* indices, uint32_t* valid_out, const Execution& on);

void cuda_nadamw(const NadamwArrays& arrays, uint64_t count, const NadamwArgs& args,
                 const Execution& on);
void cuda_look_ahead(const float* w, const float* previous, uint64_t count, float gamma,
                     float* point, const Execution& on);
void cuda_nesterov(float* w, float* previous, const float* gradient, uint64_t count, float gamma,
                   float lr, const Execution& on);
void cuda_table_ema(const ParameterTable& table, float decay, float* average, const Execution& on);
void cuda_sum_of_squares(const float* values, uint64_t count, double* sums, const Execution& on);
void cuda_compare(const ParameterTable& first, const ParameterTable& second, double* sums,
                  const Execution& on);

void cuda_quantise(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                   std::byte* out, const Execution& on);
void cuda_dequantise(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                     const Execution& on);

}  // namespace asyncmesh::kernels
