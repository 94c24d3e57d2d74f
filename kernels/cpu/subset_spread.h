// How a subset's blocks are cut over threads, and where the packed values of a range lie.
#pragma once

#include <cstdint>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/spread.h"

namespace asyncmesh::kernels {

// Blocks [begin, end) of a subset.
struct BlockRange {
  uint64_t begin;
  uint64_t end;
};

// Packed values before block `block` of the subset.
inline uint64_t values_before(const ParameterTable& table, const Subset& subset, uint64_t block) {
  Subset before = subset;
  before.limit = block;
  return block == 0 ? 0 : subset_elements(table, before);
}

// Whether a training step between two calls leaves nothing of the table, nor of what was packed of
// it, in the caches.
inline bool larger_than_caches(const ParameterTable& table) {
  constexpr uint64_t kCached = uint64_t{32} << 20;
  uint64_t elements = 0;
  for (uint32_t i = 0; i < table.size; ++i) elements += table.tensors[i].count;
  return encoded_bytes(table.storage, elements) >= kCached;
}

// body(const BlockRange&) for ranges that together are the whole subset.
template <class Body>
void spread_blocks(const Execution& on, const Subset& subset, const Body& body) {
  constexpr uint64_t kLeastValues = 32768;
  const uint64_t least = kLeastValues / subset.granularity + 1;
  spread(on.workers, subset_blocks(subset), least, [&](uint64_t begin, uint64_t end) {
    body(BlockRange{begin, end});
  });
}

}  // namespace asyncmesh::kernels
