// From the number of a block to its place in the table, without allocation.
//
// The block numbers are cut into at most 256 buckets of equal width, each of which knows the tensor
// in which it starts; from there the few tensors of one bucket are walked. Built per call on the
// stack in O(tensors). The tensors must outlive it.
#pragma once

#include <cstdint>

#include "kernels/subset.h"

namespace asyncmesh::kernels {

struct BlockPlace {
  uint64_t block;
  uint64_t offset;   // first element, within the tensor
  uint64_t element;  // first element, within the table
  uint32_t tensor;
  uint32_t count;  // elements: the granularity, or less at the end of a tensor
};

class BlockFinder {
 public:
  BlockFinder(const ParameterTable& table, const Subset& subset) noexcept;

  BlockPlace find(uint64_t block) const noexcept {
    const uint64_t bucket = block >> shift_;
    uint32_t tensor = first_tensor_[bucket];
    uint64_t element = first_element_[bucket];
    while (tensor + 1 < tensor_count_ && tensors_[tensor + 1].first_block <= block) {
      element += tensors_[tensor].count;
      ++tensor;
    }
    const TensorView& view = tensors_[tensor];
    const uint64_t offset = (block - view.first_block) * granularity_;
    const uint64_t left = view.count - offset;
    return {block, offset, element + offset, tensor,
            static_cast<uint32_t>(left < granularity_ ? left : granularity_)};
  }

 private:
  static constexpr uint32_t kBuckets = 256;

  const TensorView* tensors_;
  uint32_t tensor_count_;
  uint32_t granularity_;
  uint32_t shift_ = 0;
  uint32_t first_tensor_[kBuckets];
  uint64_t first_element_[kBuckets];
};

}  // namespace asyncmesh::kernels
