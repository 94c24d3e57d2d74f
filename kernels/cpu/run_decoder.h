// Reads an encoded run of values in order, from any position on, as fp32 words: in place where they
// are that already, else decoded a little ahead into a buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/quantise.h"
#include "kernels/wire.h"

namespace asyncmesh::kernels {

class RunDecoder {
 public:
  static constexpr uint64_t kMost = kGroup;  // values of one read

  // `count` values in all, of which the first that is read is `first`. Null `encoded`: nothing may
  // be read. `count` is only looked at where values are decoded.
  RunDecoder(const std::byte* encoded, Encoding encoding, uint64_t count, uint64_t first) noexcept
      : encoded_(encoded), encoding_(encoding), count_(count), next_(first) {
    if (!lossless(encoding) || encoded == nullptr) return;
    words_ = encoded + encoded_bytes(encoding, first);
    ready_ = UINT64_MAX;
  }
  RunDecoder(const RunDecoder&) = delete;
  RunDecoder& operator=(const RunDecoder&) = delete;

  // As read, of the values from `first` on: any. Only where values are decoded.
  const std::byte* read_from(uint64_t first, uint64_t some) noexcept {
    if (first != next_ - ready_) {
      next_ = first;
      ready_ = 0;
    }
    return read(some);
  }
  // The next `some` <= kMost values, valid until the next read. There must be as many.
  const std::byte* read(uint64_t some) noexcept {
    while (ready_ < some) decode();  // twice from within a group
    const std::byte* const words = words_;
    words_ += some * sizeof(float);
    ready_ -= some;
    return words;
  }

 private:
  // Keeps what is left over in front. Groups are decoded whole.
  [[gnu::noinline]] void decode() noexcept {
    constexpr uint64_t kStep = kGroup;
    if (ready_ != 0) __builtin_memmove(buffer_, words_, ready_ * sizeof(float));
    const uint64_t begin = next_ / kStep * kStep;
    const uint64_t end = count_ - begin < kStep ? count_ : begin + kStep;
    float* const to = buffer_ + ready_;
    dequantise_values(encoded_, encoding_, begin, end - begin, to);
    // Among many random accesses, hardware prefetchers lose sight of this run until its next turn.
    prefetch_all(encoded_ + encoded_bytes(encoding_, begin + kStep),
                 encoded_bytes(encoding_, kStep));
    if (ready_ == 0) {
      words_ = reinterpret_cast<const std::byte*>(to + (next_ - begin));
    } else {
      words_ = reinterpret_cast<const std::byte*>(buffer_);
    }
    ready_ += end - next_;
    next_ = end;
  }

  const std::byte* encoded_;
  Encoding encoding_;
  uint64_t count_;
  uint64_t next_;  // the first value that is not decoded yet; once one is, the start of a group
  const std::byte* words_ = nullptr;
  uint64_t ready_ = 0;
  alignas(64) float buffer_[kMost + kGroup];
};

}  // namespace asyncmesh::kernels
