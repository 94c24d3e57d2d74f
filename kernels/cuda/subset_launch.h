// What a launch needs to find the values of a subset, beyond its table (table_launch.h).
//
// A packed offset depends on all short blocks before it. The launch lists those of its range of
// positions (`tails`); where a subset holds more than kMaxTails of them, its positions are cut into
// several ranges, each over all tensors. A launch covers those blocks of its range that lie in its
// tensors.
#pragma once

#include <cstdint>

#include "kernels/cuda/table_launch.h"
#include "kernels/permutation.h"

namespace asyncmesh::kernels {

// A short last block of a tensor, in the subset.
struct LaunchTail {
  uint64_t index;    // its number within the subset
  uint64_t missing;  // elements that the blocks of the range lack, up to and with this one
};

// A value within a launch, and what follows it.
struct LaunchPlace {
  void* data;        // of its tensor; null: not in this launch
  void* other;       // of the same tensor of the second table, or null
  uint64_t offset;   // within the tensor
  uint64_t element;  // within the table
  uint64_t block;    // subsets only
  uint64_t run;      // values from here on that follow each other in memory, at least 1
};

// The upper half of a product.
ASYNCMESH_INLINE uint64_t high_product(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64);
#endif
}

struct SubsetLaunch {
  static constexpr uint32_t kMaxTails = 256;

  explicit SubsetLaunch(const Subset& subset) noexcept
      : permutation(subset.key, subset.blocks),
        parts(subset.parts),
        part(subset.part),
        granularity(subset.granularity),
        reciprocal(UINT64_MAX / subset.granularity) {}

  // How many blocks so many elements are: a division, which devices have no instruction for. The
  // product of the reciprocal is at most one below.
  ASYNCMESH_INLINE uint64_t blocks_in(uint64_t elements) const noexcept {
    const uint64_t blocks = high_product(elements, reciprocal);
    return elements - blocks * granularity >= granularity ? blocks + 1 : blocks;
  }
  // The packed offset of a block of the range.
  ASYNCMESH_INLINE uint64_t packed(uint64_t index, uint64_t missing) const noexcept {
    return index * granularity - missing;
  }

  // The value at `position` of the packed subset, by `tensors` and `tails` of this launch or copies
  // of them. `position` is in [begin_position, end_position).
  ASYNCMESH_INLINE LaunchPlace find(const LaunchTensor* by_tensors, const LaunchTail* by_tails,
                                    uint64_t position) const noexcept {
    uint64_t missing = missing_before_range;
    uint64_t next_tail = UINT64_MAX;
    for (uint32_t low = 0, high = tail_count; low < high;) {
      const uint32_t middle = low + (high - low) / 2;
      const LaunchTail tail = by_tails[middle];
      const uint64_t upto = missing_before_range + tail.missing;
      if (packed(tail.index + 1, upto) <= position) {
        missing = upto;
        low = middle + 1;
      } else {
        next_tail = tail.index;
        high = middle;
      }
    }
    const uint64_t index = blocks_in(position + missing);
    const uint64_t within = position + missing - index * granularity;
    LaunchPlace place = {};
    place.block = permutation.inverse(part + index * parts);
    place.run = granularity - within;
    const bool here = place.block >= begin_block && place.block < end_block;
    // A block that is elsewhere is short for certain if it is the next tail.
    if (!here && index == next_tail) place.run = 1;
    if (!here) return place;
    const uint32_t found = last_not_above(table.size, place.block,
                                          [&](uint32_t i) { return by_tensors[i].first_block; });
    const LaunchTensor& tensor = by_tensors[found];
    place.data = tensor.data;
    place.other = tensor.other;
    place.offset = (place.block - tensor.first_block) * granularity + within;
    place.element = tensor.first_element + place.offset;
    const uint64_t left = tensor.count - place.offset;
    if (left < place.run) place.run = left;
    return place;
  }

  Permutation permutation;
  uint32_t parts;
  uint32_t part;
  uint32_t granularity;
  uint64_t reciprocal;  // 2^64 / granularity, rounded down
  uint32_t tail_count = 0;
  uint64_t begin_index = 0, end_index = 0;        // blocks of the subset
  uint64_t begin_position = 0, end_position = 0;  // values of the packed subset
  uint64_t begin_block = 0, end_block = 0;        // blocks of the table that `table` holds
  uint64_t missing_before_range = 0;
  TableLaunch table;
  LaunchTail tails[kMaxTails];  // ascending
};
// What a kernel of CUDA 12.1 and later may take (32,764 bytes), with room for its other parameters.
static_assert(sizeof(SubsetLaunch) <= 28672);

// Enumerates the launches that cover a subset, in an order that does not matter.
class SubsetLaunches {
 public:
  // The tables must outlive it. `mirror` may be null.
  SubsetLaunches(const ParameterTable& table, const Subset& subset,
                 const ParameterTable* mirror) noexcept;
  bool next() noexcept;
  const SubsetLaunch& launch() const noexcept { return launch_; }
  // After the first next(): whether it covers everything.
  bool is_only_one() const noexcept;

 private:
  void take_range() noexcept;
  bool take_tensors() noexcept;

  ParameterTable table_;
  const TensorView* others_;
  Subset subset_;
  uint32_t next_tensor_ = 0;
  SubsetLaunch launch_;
};

}  // namespace asyncmesh::kernels
