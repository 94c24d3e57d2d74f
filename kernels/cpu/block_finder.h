// From the number of a block to its place in the table, without allocation.
//
// The block numbers are cut into at most 256 buckets of equal width, each of which knows the tensor
// in which it starts: most blocks are in it, the others are found by walking the few tensors of the
// bucket. Built per call on the stack in O(tensors). The table's tensors must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/subset.h"

namespace asyncmesh::kernels {

struct BlockPlace {
  void* data;        // of the tensor
  uint64_t offset;   // first element, within the tensor
  uint64_t element;  // first element, within the table
  uint64_t count;    // elements: the granularity, or less at the end of a tensor
  uint32_t tensor;
};

class BlockFinder {
 public:
  BlockFinder(const ParameterTable& table, const Subset& subset) noexcept;

  [[gnu::always_inline]] BlockPlace find(uint64_t block) const noexcept {
    const Start& start = starts_[block >> shift_];
    if (__builtin_expect(block >= start.next_block, 0)) return find_after(start, block);
    return place(start, block);
  }

 private:
  static constexpr uint32_t kBuckets = 256;

  // Where blocks [first_block, next_block) of a tensor lie.
  struct Start {
    void* data;
    uint64_t first_block;
    uint64_t next_block;
    uint64_t count;    // of the tensor
    uint64_t element;  // of the table, where the tensor starts
    uint32_t tensor;
  };

  [[gnu::always_inline]] BlockPlace place(const Start& start, uint64_t block) const noexcept {
    const uint64_t offset = (block - start.first_block) * granularity_;
    const uint64_t left = start.count - offset;
    return {start.data, offset, start.element + offset, left < granularity_ ? left : granularity_,
            start.tensor};
  }
  // The last tensor has no next one.
  uint64_t next_block(uint32_t tensor) const noexcept {
    return tensor + 1 < tensor_count_ ? tensors_[tensor + 1].first_block : UINT64_MAX;
  }
  Start start_of(uint32_t tensor, uint64_t element) const noexcept {
    const TensorView& view = tensors_[tensor];
    return {view.data, view.first_block, next_block(tensor), view.count, element, tensor};
  }
  BlockPlace find_after(const Start& start, uint64_t block) const noexcept;

  const TensorView* tensors_;
  uint32_t tensor_count_;
  uint32_t shift_ = 0;
  uint64_t granularity_;
  Start starts_[kBuckets];
};

}  // namespace asyncmesh::kernels
