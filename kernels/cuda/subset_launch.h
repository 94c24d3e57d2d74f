// How a parameter table gets to the device: by value, in the parameter block of a launch.
//
// Nothing is allocated, copied ahead or kept: each launch carries up to kMaxTensors tensors and
// what a thread needs to find its block, and covers the blocks of the subset that lie in them. A
// larger table takes several launches, each over the same positions with other tensors.
//
// A packed offset depends on all short blocks before it. The launch lists those of its range of
// positions (`tails`); where a subset holds more than kMaxTails of them, its positions are cut into
// several ranges too. Host and device code without CUDA types, so that the tests run it on the CPU.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kernels.h"
#include "kernels/permutation.h"

namespace asyncmesh::kernels {

struct LaunchTensor {
  void* data;
  void* mirror;  // null: none
  uint64_t count;
  uint64_t first_block;
  uint64_t first_element;  // within the table
};

// A short last block of a tensor, in the subset.
struct LaunchTail {
  uint64_t index;    // its number within the subset
  uint64_t missing;  // elements that the blocks of the range lack, up to and with this one
};

struct LaunchPlace {
  uint64_t block;
  uint64_t offset;   // first element, within the tensor
  uint64_t element;  // first element, within the table
  uint64_t packed;   // first element, within the packed subset
  uint32_t tensor;   // within the launch
  uint32_t count;
};

struct SubsetLaunch {
  static constexpr uint32_t kMaxTensors = 256;
  static constexpr uint32_t kMaxTails = 256;

  explicit SubsetLaunch(const Subset& subset) noexcept
      : permutation(subset.key, subset.blocks),
        parts(subset.parts),
        part(subset.part),
        granularity(subset.granularity) {}

  // Where the index-th block of the subset lies; false: in none of the tensors of this launch.
  ASYNCMESH_INLINE bool locate(uint64_t index, LaunchPlace& place) const noexcept {
    const uint64_t block = permutation.inverse(part + index * parts);
    if (block < begin_block || block >= end_block) return false;
    uint32_t low = 0;
    for (uint32_t high = tensor_count; high - low > 1;) {
      const uint32_t middle = low + (high - low) / 2;
      (tensors[middle].first_block <= block ? low : high) = middle;
    }
    const LaunchTensor& tensor = tensors[low];
    place.block = block;
    place.tensor = low;
    place.offset = (block - tensor.first_block) * granularity;
    place.element = tensor.first_element + place.offset;
    place.packed = index * granularity - missing_before(index);
    const uint64_t left = tensor.count - place.offset;
    place.count = static_cast<uint32_t>(left < granularity ? left : granularity);
    return true;
  }

  // Elements that the blocks of the subset before `index` lack.
  ASYNCMESH_INLINE uint64_t missing_before(uint64_t index) const noexcept {
    uint32_t low = 0;
    for (uint32_t high = tail_count; low < high;) {
      const uint32_t middle = low + (high - low) / 2;
      if (tails[middle].index < index) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return missing_before_range + (low == 0 ? 0 : tails[low - 1].missing);
  }

  Permutation permutation;
  uint32_t parts;
  uint32_t part;
  uint32_t granularity;
  uint32_t tensor_count = 0;
  uint32_t tail_count = 0;
  uint64_t begin_index = 0, end_index = 0;  // blocks of the subset
  uint64_t begin_block = 0, end_block = 0;  // blocks of the table that `tensors` hold
  uint64_t missing_before_range = 0;
  LaunchTensor tensors[kMaxTensors];  // without empty ones
  LaunchTail tails[kMaxTails];        // ascending
};
// What a kernel of CUDA 12.1 and later may take, with room for its other parameters.
static_assert(sizeof(SubsetLaunch) <= 16384);

// Enumerates the launches that cover a subset, in an order that does not matter:
//   SubsetLaunches launches(...); while (launches.next()) use(launches.launch());
class SubsetLaunches {
 public:
  // The tables must outlive it. `mirror` may be null.
  SubsetLaunches(const ParameterTable& table, const Subset& subset,
                 const ParameterTable* mirror) noexcept;
  bool next() noexcept;
  const SubsetLaunch& launch() const noexcept { return launch_; }

 private:
  void take_range() noexcept;
  void take_tensors() noexcept;

  const TensorView* tensors_;
  uint32_t tensor_count_;
  const TensorView* mirror_;
  Subset subset_;
  uint32_t next_tensor_ = 0;
  uint64_t next_element_ = 0;
  SubsetLaunch launch_;
};

}  // namespace asyncmesh::kernels
