// The CPU entries on the rotating subset; contract in kernels.h.
#pragma once

#include "kernels/kernels.h"

namespace asyncmesh::kernels {

uint64_t subset_elements(const ParameterTable& table, const Subset& subset);

void cpu_partition_pack(const ParameterTable& table, const Subset& subset, const Wire& wire,
                        float* snapshot, std::byte* encoded, const Execution& on);

void cpu_partition_unpack(const ParameterTable& table, const Subset& subset, Encoding encoding,
                          const std::byte* encoded, const Execution& on);

uint32_t cpu_average(const Contributions& all, uint64_t count, float* mean,
                     uint64_t* not_finite_out, const Execution& on);

void cpu_apply(const ParameterTable& table, const Subset& subset, const ApplyArgs& args,
               const ApplyArrays& arrays, const Execution& on);

}  // namespace asyncmesh::kernels
