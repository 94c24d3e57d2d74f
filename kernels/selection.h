// Explicit indices: which elements changed most, and how their numbers travel.
//
// Indices are numbers of elements over the whole table, strictly ascending, below 2^31.
//
// Index stream: blocks of kIndexBlock indices, a header for each, then the packed gaps of all:
//
//   | base, end | base, end | ... | gaps of block 0 | gaps of block 1 | ...        (32-bit words)
//
// `base` is the block's first index, `end` the number of 32-bit words of gaps up to and with this
// block. Index i of a block (i > 0) minus its predecessor minus 1, and 0 for i = 0, takes `width`
// bits from bit i * width of the block's words; a block has 4 * width words, so that width follows
// from the ends. Indices missing in the last block have gap 0, which decoders do not look at; that
// of index 0 they do. Every block can be decoded by itself. At 5 % of a table a random index costs
// about 7.7 bits (13.4 at 0.1 %, 3.9 at 50 %).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/subset.h"

namespace asyncmesh::kernels {

inline constexpr uint64_t kMaxSelectable = 1ULL << 31;  // elements, inclusive
inline constexpr uint32_t kIndexBlock = 128;

// The most bytes of a stream of `count` indices (32 bits each and the headers).
constexpr size_t index_stream_bound(uint64_t count) {
  const uint64_t blocks = (count + kIndexBlock - 1) / kIndexBlock;
  return static_cast<size_t>(blocks) * (8 + kIndexBlock * 4);
}

// A change that top_change selects by: score = |w - reference| * weight, in fp32, each operation
// rounded to nearest. A score that is not finite counts as 0: a coordinate that diverged is not
// worth the wire.
struct Change {
  ParameterTable table;
  const float* reference = nullptr;  // flat over the table
  const float* weight = nullptr;     // flat, >= 0 (a Fisher estimate); null: all 1
};

// Between calls: a guess at the k-th largest score, and where it was last time. Start with {}.
struct Threshold {
  float score = 0;      // of the last selected element; 0: no guess
  uint32_t passes = 0;  // over the data, that the last call took (for tests and reports)
};

// What `index_pack` sends, and what it keeps.
struct Feedback {
  // Null: values are w. Not null (flat over the table): values are w - reference, and reference
  // advances by each value as the receivers decode it. w - reference is then always what was not
  // sent yet, the rounding included: error feedback (SparseLoCo, 2508.15706, in another notation).
  float* reference = nullptr;
};

}  // namespace asyncmesh::kernels
