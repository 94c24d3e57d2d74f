// Visits the blocks of a subset in order, a batch at a time: find them, touch them, visit them.
//
// The blocks lie in random order over the table, so that the hardware prefetcher has nothing to
// follow, and on 4 KiB pages a prefetch instruction is dropped where the page is not in the TLB
// (measured: no gain at any distance). A short run of plain loads keeps as many misses in flight as
// the core allows; hence `touch`, between the arithmetic of finding and the work of visiting.
#pragma once

#include <cstdint>

#include "kernels/cpu/block_finder.h"
#include "kernels/permutation.h"

namespace asyncmesh::kernels {

// Reads one float of each cache line of `count` > 0 floats; the hardware follows a longer run. The
// last float is read by itself: whether it lies on a line of its own would be a branch that guesses
// wrong every other time.
inline void touch_floats(const float* data, uint64_t count) noexcept {
  constexpr uint64_t kLine = 16, kMost = 256;
  const volatile float* floats = data;
  const uint64_t run = count < kMost ? count : kMost;
  for (uint64_t i = 0; i < run; i += kLine) static_cast<void>(floats[i]);
  static_cast<void>(floats[run - 1]);
}

// touch(const BlockPlace&), then a little later visit(const BlockPlace&), for every block of the
// subset in order.
template <typename Touch, typename Visit>
void walk_subset(const ParameterTable& table, const Subset& subset, Touch touch,
                 Visit visit) noexcept {
  constexpr uint64_t kBatch = 64;  // 16 KiB of the usual blocks
  const BlockFinder finder(table, subset);
  const Permutation permutation(subset.key, subset.blocks);
  BlockPlace places[kBatch];
  uint64_t position = subset.part;
  for (uint64_t left = subset_blocks(subset); left != 0;) {
    const uint64_t count = left < kBatch ? left : kBatch;
    for (uint64_t i = 0; i < count; ++i, position += subset.parts) {
      places[i] = finder.find(permutation.inverse(position));
    }
    for (uint64_t i = 0; i < count; ++i) touch(places[i]);
    for (uint64_t i = 0; i < count; ++i) visit(places[i]);
    left -= count;
  }
}

}  // namespace asyncmesh::kernels
