// The keyed permutation of the blocks of a table, prepared once per call and evaluated per block.
//
// A Feistel network over a grid of 2^k columns and as many rows as `blocks` needs: column and row
// are replaced in turn, each by itself plus a hash of the other. The grid is larger than `blocks`
// by less than one row; what lands in the surplus walks on until it lands below. So one pass is the
// rule, and its branch is predictable. All integer arithmetic: the same on every backend and every
// machine. Plain value, passed to CUDA kernels as it is.
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
      uint32_t column = static_cast<uint32_t>(block) & column_mask_;
      uint32_t row = static_cast<uint32_t>(block >> column_bits_);
      for (int round = 0; round < kRounds; round += 2) {
        row += row_step(column ^ keys_[round]);
        row -= row >= rows_ ? rows_ : 0;
        column ^= column_step(row ^ keys_[round + 1]);
      }
      block = static_cast<uint64_t>(row) << column_bits_ | column;
    } while (block >= blocks_);
    return block;
  }

  ASYNCMESH_INLINE uint64_t inverse(uint64_t position) const noexcept {
    if (identity_) return position;
    do {
      uint32_t column = static_cast<uint32_t>(position) & column_mask_;
      uint32_t row = static_cast<uint32_t>(position >> column_bits_);
      for (int round = kRounds - 2; round >= 0; round -= 2) {
        column ^= column_step(row ^ keys_[round + 1]);
        row += rows_ - row_step(column ^ keys_[round]);
        row -= row >= rows_ ? rows_ : 0;
      }
      position = static_cast<uint64_t>(row) << column_bits_ | column;
    } while (position >= blocks_);
    return position;
  }

  // What vectors of blocks are computed from (kernels/cpu/permutation-inl.h): see inverse.
  static constexpr int kRounds = 6;
  bool identity() const noexcept { return identity_ != 0; }
  uint64_t blocks() const noexcept { return blocks_; }
  uint32_t rows() const noexcept { return rows_; }
  uint32_t column_bits() const noexcept { return column_bits_; }
  uint32_t key(int round) const noexcept { return keys_[round]; }

 private:
  ASYNCMESH_INLINE static uint32_t mix(uint32_t value) noexcept {
    value *= 0x9E3779B1U;
    value ^= value >> 15;
    return value * 0x85EBCA6BU;
  }
  // The upper bits, the best mixed ones, as a number below rows_ and below the columns.
  ASYNCMESH_INLINE uint32_t row_step(uint32_t value) const noexcept {
    return static_cast<uint32_t>((static_cast<uint64_t>(mix(value)) * rows_) >> 32);
  }
  ASYNCMESH_INLINE uint32_t column_step(uint32_t value) const noexcept {
    return mix(value) >> column_shift_;
  }

  uint64_t blocks_;
  uint32_t identity_;
  uint32_t rows_;         // below 2^21
  uint32_t column_bits_;  // 1 .. 20
  uint32_t column_mask_;
  uint32_t column_shift_;  // 32 - column_bits_
  uint32_t keys_[kRounds];
};

}  // namespace asyncmesh::kernels
