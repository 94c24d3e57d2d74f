// A parameter table, and the rotating subset of its blocks.
#pragma once

#include <cstdint>

#include "kernels/wire.h"

namespace asyncmesh::kernels {

inline constexpr uint64_t kMaxBlocks = 1ULL << 40;  // exclusive

// One tensor of a parameter table and where its blocks are numbered.
struct TensorView {
  void* data = nullptr;
  uint64_t count = 0;        // elements; 0 is allowed and has no block
  uint64_t first_block = 0;  // number of its first block within the table; ascending

  float* floats() const { return static_cast<float*>(data); }
};

// Elements are numbered over the table in tensor order.
struct ParameterTable {
  const TensorView* tensors = nullptr;
  uint32_t size = 0;                      // tensors
  Encoding storage = Encoding::kFloat32;  // of all tensors: fp32 masters, or bf16 or fp16 without
};

// The blocks of part `part` of `parts` under the keyed permutation: block b of the table (b in
// [0, blocks)) belongs to part permute(b) % parts, i.e. part u holds the blocks permute^-1(u),
// permute^-1(u + parts), ... in that order. Sizes differ by at most one block. A block is
// `granularity` consecutive elements of one tensor, the last one of a tensor may be shorter.
// `limit` keeps the first so many blocks of the part: with one part and a number drawn from a
// binomial distribution, that is a coin per block, at the cost of the blocks chosen.
// 1 <= blocks < kMaxBlocks, 1 <= parts <= blocks, part < parts, 1 <= granularity. May be empty.
struct Subset {
  uint64_t key = 0;     // of the permutation: from seed, group and cycle; 0 is the identity
  uint64_t blocks = 0;  // in the table
  uint32_t parts = 1;   // N
  uint32_t part = 0;    // u
  uint32_t granularity = 64;
  uint64_t limit = UINT64_MAX;
};

constexpr uint64_t subset_blocks(const Subset& subset) {
  const uint64_t whole = (subset.blocks - subset.part + subset.parts - 1) / subset.parts;
  return whole < subset.limit ? whole : subset.limit;
}

// Whether the block at `position` of the permutation belongs to the subset.
constexpr bool in_subset(const Subset& subset, uint64_t position) {
  return position % subset.parts == subset.part && position / subset.parts < subset.limit;
}

// The keyed permutation of [0, blocks) and its inverse; O(1) memory (a Feistel network,
// cycle-walking). 1 <= blocks < kMaxBlocks. Key 0 is the identity: part u holds the blocks u,
// u + parts, ...
uint64_t permute(uint64_t key, uint64_t blocks, uint64_t block) noexcept;
uint64_t permute_inverse(uint64_t key, uint64_t blocks, uint64_t position) noexcept;

}  // namespace asyncmesh::kernels
