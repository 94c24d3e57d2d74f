// Scaled encodings of a table that takes several launches, where a row's values may be of
// different launches: the largest value of each row first, in its scale's place, then the codes.
// Reads the values twice (int4: three times).
#pragma once

#include "kernels/cuda/encode.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels {

// As partition_pack without a snapshot, and as index_pack.
void pack_mixed(const ParameterTable& table, const Subset& subset, const device::PackOutputs& out,
                void* stream);
void pack_mixed(const ParameterTable& table, const uint32_t* indices,
                const device::PackOutputs& out, void* stream);

}  // namespace asyncmesh::kernels
