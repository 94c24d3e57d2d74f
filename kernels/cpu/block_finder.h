// From the number of a block to its place in the table, without allocation, and in most tables
// without a branch that could be mispredicted: blocks come in random order.
//
// The block numbers are cut into at most 256 buckets of equal width. Each knows the tensor in which
// it starts and where within it the next ones start; a block's tensor is found by counting those
// before it. Blocks behind more than that, and all but the first of a bucket's tensors in tables of
// more than 512, are found by walking the tensors of the bucket. Built per call on the stack in
// O(tensors). The table's tensors must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/subset.h"

namespace asyncmesh::kernels {

struct BlockPlace {
  std::byte* data;   // first element
  uint64_t offset;   // of it, within the tensor
  uint64_t element;  // of it, within the table
  uint64_t count;    // elements: the granularity, or less at the end of a tensor
  uint32_t tensor;
};

class BlockFinder {
 public:
  BlockFinder(const ParameterTable& table, const Subset& subset) noexcept;

  [[gnu::always_inline]] BlockPlace find(uint64_t block) const noexcept {
    const Bucket& bucket = buckets_[block >> shift_];
    const auto within = static_cast<uint32_t>(block & mask_);
    if (__builtin_expect(within >= bucket.beyond, 0)) return find_after(bucket.start, block);
    uint32_t start = bucket.start;
    for (const uint32_t next : bucket.next) start += static_cast<uint32_t>(within >= next);
    return place(starts_[start], block);
  }

 private:
  static constexpr uint32_t kBuckets = 256;
  static constexpr uint32_t kStarts = 512;
  static constexpr uint32_t kNext = 4;
  static_assert((kMaxBlocks - 1) / kBuckets <= UINT32_MAX);

  // Where a tensor lies. As if it went back to the table's first block, so that a block's place is
  // one product away, whichever tensor it is of.
  struct Start {
    uintptr_t data;
    uint64_t element;     // of the table
    uint64_t last_block;  // which has `last_count` elements
    uint64_t last_count;
    uint64_t first_block;
    uint32_t tensor;
  };
  // Block numbers are relative to the bucket's first; UINT32_MAX where there is none.
  struct Bucket {
    uint32_t start;        // of the tensor that holds the first block: an index of starts_
    uint32_t next[kNext];  // first blocks of the tensors after it
    uint32_t beyond;       // of the tensor after those
  };

  [[gnu::always_inline]] BlockPlace place(const Start& start, uint64_t block) const noexcept {
    return {reinterpret_cast<std::byte*>(start.data + block * block_bytes_),
            (block - start.first_block) * granularity_, start.element + block * granularity_,
            block == start.last_block ? start.last_count : granularity_, start.tensor};
  }
  // The last tensor has no next one.
  uint64_t next_block(uint32_t tensor) const noexcept {
    return tensor + 1 < tensor_count_ ? tensors_[tensor + 1].first_block : UINT64_MAX;
  }
  Start start_of(uint32_t tensor, uint64_t element) const noexcept;
  // First block of `tensor` + 1, from `first` on.
  uint32_t next_within(uint32_t tensor, uint64_t first) const noexcept;
  BlockPlace find_after(uint32_t start, uint64_t block) const noexcept;

  const TensorView* tensors_;
  uint32_t tensor_count_;
  uint32_t shift_ = 0;
  uint64_t mask_;
  uint64_t granularity_;
  uint64_t block_bytes_;  // of a whole one
  Bucket buckets_[kBuckets];
  Start starts_[kStarts];  // of all tensors, or where there are too many, of the buckets' first
};

}  // namespace asyncmesh::kernels
