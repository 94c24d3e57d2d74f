// The rounds that this member has started and not resolved yet: what was sampled, and when.
//
// A ring in order of start; its memory (snapshots, and with a lossy encoding this member's own
// encoded contributions) is allocated at construction. Owned by one averager; no locking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/large_vector.h"
#include "kernels/kernels.h"

namespace asyncmesh {

struct Round {
  uint64_t number = 0;
  kernels::Subset subset;
  uint64_t elements = 0;
  uint32_t pieces = 1;
  float weight = 1.0F;
  uint64_t call = 0;           // of the averager, in which it started
  uint64_t writes_before = 0;  // rounds applied when it was sampled
  Nanoseconds started = 0;
  float* snapshot = nullptr;  // o: this member's values when sampled, in subset order
  std::byte* own = nullptr;   // this member's contribution as posted; the snapshot when lossless
};

class RoundRing {
 public:
  RoundRing(uint32_t capacity, uint64_t max_elements, kernels::Encoding encoding);

  uint32_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == rounds_.size(); }
  Round& front() { return rounds_[head_]; }  // the oldest
  // The entry that push() will add; its memory may be written before. Not when full.
  Round& next() { return rounds_[(head_ + count_) % rounds_.size()]; }
  void push() { ++count_; }
  void pop();
  void clear() { count_ = 0; }

 private:
  std::vector<Round> rounds_;
  LargeVector<float> snapshots_;
  LargeVector<std::byte> encoded_;
  size_t head_ = 0;
  uint32_t count_ = 0;
};

}  // namespace asyncmesh
