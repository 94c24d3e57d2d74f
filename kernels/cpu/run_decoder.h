// Reads an encoded run of values from any position on, as fp32 words: in place where they are that
// already, else decoded a group at a time into a buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quantise.h"
#include "kernels/wire.h"

namespace asyncmesh::kernels {

class RunDecoder {
 public:
  // `count` values in all, of which the first that is read is `first`. Null `encoded`: nothing may
  // be read.
  RunDecoder(const std::byte* encoded, Encoding encoding, uint64_t count, uint64_t first) noexcept
      : encoded_(encoded), encoding_(encoding), count_(count), next_(first) {
    if (!lossless(encoding) || encoded == nullptr) return;
    words_ = encoded + encoded_bytes(encoding, first);
    ready_ = UINT64_MAX;
  }
  RunDecoder(const RunDecoder&) = delete;
  RunDecoder& operator=(const RunDecoder&) = delete;

  // How many of the next values lie one after the other at words(); not 0.
  uint64_t ready() noexcept {
    if (__builtin_expect(ready_ == 0, 0)) decode();
    return ready_;
  }
  const std::byte* words() const noexcept { return words_; }
  // count <= ready().
  void advance(uint64_t count) noexcept {
    words_ += count * sizeof(float);
    ready_ -= count;
  }

 private:
  [[gnu::noinline]] void decode() noexcept {
    const uint64_t group = next_ / kGroup * kGroup;
    const uint64_t end = count_ - group < kGroup ? count_ : group + kGroup;
    dequantise_values(encoded_, encoding_, group, end - group, buffer_);
    words_ = reinterpret_cast<const std::byte*>(buffer_ + (next_ - group));
    ready_ = end - next_;
    next_ = end;
  }

  const std::byte* encoded_;
  Encoding encoding_;
  uint64_t count_;
  uint64_t next_;  // the first value that is not decoded yet
  const std::byte* words_ = nullptr;
  uint64_t ready_ = 0;
  alignas(64) float buffer_[kGroup];
};

}  // namespace asyncmesh::kernels
