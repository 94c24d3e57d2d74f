// The CPU entries for explicit indices; contract in kernels.h.
#pragma once

#include "kernels/kernels.h"

namespace asyncmesh::kernels {

size_t cpu_top_change_workspace(uint64_t elements, uint64_t k);
void cpu_top_change(const Change& change, uint64_t k, Threshold* threshold, uint32_t* indices,
                    void* workspace, const Execution& on);

void cpu_index_pack(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                    const Wire& wire, const Feedback& feedback, std::byte* encoded,
                    const Execution& on);
void cpu_index_unpack(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                      Encoding encoding, const std::byte* encoded, const Execution& on);
void cpu_index_accumulate(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                          Encoding encoding, const std::byte* encoded, float weight,
                          const Execution& on);

void cpu_encode_indices(const uint32_t* indices, uint64_t count, std::byte* stream,
                        uint64_t* bytes_out, const Execution& on);
void cpu_decode_indices(const std::byte* stream, uint64_t bytes, uint64_t count, uint64_t elements,
                        uint32_t* indices, uint32_t* valid_out, const Execution& on);

}  // namespace asyncmesh::kernels
