#include "kernels/permutation.h"

#include <algorithm>
#include <bit>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {
namespace {

uint64_t split_mix(uint64_t& state) noexcept {
  state += 0x9E3779B97F4A7C15ULL;
  uint64_t value = state;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

}  // namespace

Permutation::Permutation(uint64_t key, uint64_t blocks) noexcept
    : blocks_(blocks), identity_(key == 0 || blocks <= 1 ? 1 : 0) {
  column_bits_ =
      static_cast<uint32_t>(std::max(1, static_cast<int>(std::bit_width(blocks - 1)) / 2));
  column_mask_ = (1U << column_bits_) - 1;
  column_shift_ = 32 - column_bits_;
  rows_ = static_cast<uint32_t>(((blocks - 1) >> column_bits_) + 1);
  uint64_t state = key;
  for (int round = 0; round < kRounds; round += 2) {
    const uint64_t pair = split_mix(state);
    keys_[round] = static_cast<uint32_t>(pair);
    keys_[round + 1] = static_cast<uint32_t>(pair >> 32);
  }
}

uint64_t permute(uint64_t key, uint64_t blocks, uint64_t block) noexcept {
  return Permutation(key, blocks).forward(block);
}

uint64_t permute_inverse(uint64_t key, uint64_t blocks, uint64_t position) noexcept {
  return Permutation(key, blocks).inverse(position);
}

}  // namespace asyncmesh::kernels
