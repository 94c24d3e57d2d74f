// Visits the blocks of a subset in order, announcing each one some blocks ahead.
//
// The blocks lie in random order over the table, so that the hardware prefetcher has nothing to
// follow: places are computed in batches, and each batch is prefetched while the one before it is
// being visited.
#pragma once

#include <cstdint>

#include "kernels/cpu/block_finder.h"
#include "kernels/permutation.h"

namespace asyncmesh::kernels {

constexpr uint64_t subset_blocks(const Subset& subset) {
  return (subset.blocks - subset.part + subset.parts - 1) / subset.parts;
}

// Asks for the cache lines of `count` floats; the hardware follows a run that is longer.
template <int kForWriting>
inline void prefetch_floats(const float* data, uint64_t count) noexcept {
  constexpr uint64_t kLine = 64, kMostLines = 16;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uint64_t lines = (begin % kLine + count * sizeof(float) + kLine - 1) / kLine;
  const char* line = reinterpret_cast<const char*>(data) - begin % kLine;
  for (uint64_t i = 0; i < (lines < kMostLines ? lines : kMostLines); ++i) {
    __builtin_prefetch(line + i * kLine, kForWriting, 3);
  }
}

// announce(const BlockPlace&), then later visit(const BlockPlace&), for every block of the subset.
template <typename Announce, typename Visit>
void walk_subset(const TensorView* tensors, uint32_t tensor_count, const Subset& subset,
                 Announce announce, Visit visit) noexcept {
  constexpr uint64_t kBatch = 16;
  const BlockFinder finder(tensors, tensor_count, subset);
  const Permutation permutation(subset.key, subset.blocks);
  BlockPlace places[2][kBatch];
  uint64_t filled[2] = {0, 0};
  uint64_t position = subset.part;
  unsigned current = 0;
  const auto fill = [&](unsigned side) {
    uint64_t count = 0;
    for (; count < kBatch && position < subset.blocks; ++count, position += subset.parts) {
      places[side][count] = finder.find(permutation.inverse(position));
      announce(places[side][count]);
    }
    filled[side] = count;
  };
  for (fill(current); filled[current] != 0; current ^= 1U) {
    fill(current ^ 1U);
    for (uint64_t i = 0; i < filled[current]; ++i) visit(places[current][i]);
  }
}

}  // namespace asyncmesh::kernels
