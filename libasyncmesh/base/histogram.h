// Counts of values in powers of two: bucket 0 holds 0, bucket b holds [2^(b-1), 2^b). Fixed size,
// no allocation; one thread at a time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace asyncmesh {

class Histogram {
 public:
  static constexpr size_t kBuckets = 65;

  void add(uint64_t value) noexcept {
    ++buckets_[static_cast<size_t>(std::bit_width(value))];
    ++count_;
    sum_ += value;
    if (value > largest_) largest_ = value;
  }
  void merge(const Histogram& other) noexcept {
    for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    if (other.largest_ > largest_) largest_ = other.largest_;
  }

  uint64_t count() const noexcept { return count_; }
  uint64_t sum() const noexcept { return sum_; }
  uint64_t largest() const noexcept { return largest_; }
  const std::array<uint64_t, kBuckets>& buckets() const noexcept { return buckets_; }
  // No less than `fraction` (0..1) of the values are at most this; exact within a factor of two.
  uint64_t quantile(double fraction) const noexcept {
    const double wanted = fraction * static_cast<double>(count_);
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen > 0 && static_cast<double>(seen) >= wanted) {
        const uint64_t top = i == 0 ? 0 : i == 64 ? UINT64_MAX : (uint64_t{1} << i) - 1;
        return top < largest_ ? top : largest_;
      }
    }
    return largest_;
  }

 private:
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t largest_ = 0;
};

}  // namespace asyncmesh
