// The keyed permutation of the blocks of a table, prepared once per call and evaluated per block.
//
// A Feistel network with two halves of at most 20 bits over the next power of two, walked until it
// lands below `blocks` (less than two steps on average). All of it is 32-bit integer arithmetic:
// the same on every backend and every machine. Plain value, passed to CUDA kernels as it is.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace asyncmesh::kernels {

class Permutation {
 public:
  // 1 <= blocks < kMaxBlocks. Key 0, or a single block: the identity.
  Permutation(uint64_t key, uint64_t blocks) noexcept;

  ASYNCMESH_INLINE uint64_t forward(uint64_t block) const noexcept {
    if (identity_) return block;
    do {
      uint32_t low = static_cast<uint32_t>(block) & low_mask_;
      uint32_t high = static_cast<uint32_t>(block >> low_bits_);
      for (int round = 0; round < kRounds; round += 2) {
        high ^= mix(low ^ keys_[round]) >> high_shift_;
        low ^= mix(high ^ keys_[round + 1]) >> low_shift_;
      }
      block = static_cast<uint64_t>(high) << low_bits_ | low;
    } while (block >= blocks_);
    return block;
  }

  ASYNCMESH_INLINE uint64_t inverse(uint64_t position) const noexcept {
    if (identity_) return position;
    do {
      uint32_t low = static_cast<uint32_t>(position) & low_mask_;
      uint32_t high = static_cast<uint32_t>(position >> low_bits_);
      for (int round = kRounds - 2; round >= 0; round -= 2) {
        low ^= mix(high ^ keys_[round + 1]) >> low_shift_;
        high ^= mix(low ^ keys_[round]) >> high_shift_;
      }
      position = static_cast<uint64_t>(high) << low_bits_ | low;
    } while (position >= blocks_);
    return position;
  }

 private:
  static constexpr int kRounds = 6;

  // The caller takes the upper bits, the best mixed ones.
  ASYNCMESH_INLINE static uint32_t mix(uint32_t value) noexcept {
    value *= 0x9E3779B1U;
    value ^= value >> 15;
    return value * 0x85EBCA6BU;
  }

  uint64_t blocks_;
  uint32_t identity_;
  uint32_t low_bits_;
  uint32_t low_mask_;
  uint32_t low_shift_;  // 32 - bits of the half
  uint32_t high_shift_;
  uint32_t keys_[kRounds];
};

}  // namespace asyncmesh::kernels
