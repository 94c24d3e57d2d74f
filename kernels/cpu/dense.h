// The CPU entries of the table over whole tables and runs of values; contract in kernels.h.
#pragma once

#include "kernels/kernels.h"

namespace asyncmesh::kernels {

void cpu_nadamw(const NadamwArrays& arrays, uint64_t count, const NadamwArgs& args,
                const Execution& on);
void cpu_look_ahead(const float* w, const float* previous, uint64_t count, float gamma,
                    float* point, const Execution& on);
void cpu_nesterov(float* w, float* previous, const float* gradient, uint64_t count, float gamma,
                  float lr, const Execution& on);
void cpu_table_ema(const ParameterTable& table, float decay, float* average, const Execution& on);
void cpu_sum_of_squares(const float* values, uint64_t count, double* sums, const Execution& on);
void cpu_compare(const ParameterTable& first, const ParameterTable& second, double* sums,
                 const Execution& on);
void cpu_quantise(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                  std::byte* out, const Execution& on);
void cpu_dequantise(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                    const Execution& on);

}  // namespace asyncmesh::kernels
