#include "kernels/permutation.h"

#include <algorithm>
#include <bit>

#include "kernels/kernels.h"
#include "kernels/random.h"

namespace asyncmesh::kernels {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;  // the step of a SplitMix64 stream

}  // namespace

Permutation::Permutation(uint64_t key, uint64_t blocks) noexcept
    : blocks_(blocks), identity_(key == 0 || blocks <= 1 ? 1 : 0) {
  column_bits_ =
      static_cast<uint32_t>(std::max(1, static_cast<int>(std::bit_width(blocks - 1)) / 2));
  column_mask_ = (1U << column_bits_) - 1;
  column_shift_ = 32 - column_bits_;
  rows_ = static_cast<uint32_t>(((blocks - 1) >> column_bits_) + 1);
  uint64_t state = key;
  for (int round = 0; round < kRounds; round += 2, state += kGolden) {
    const uint64_t pair = mix64(state);
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
