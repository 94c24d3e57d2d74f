// The gaps of one block of an index stream from and to its words: a loop for each width, with
// constant shifts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/selection.h"

namespace asyncmesh::kernels {

// 32 gaps fill `width` words exactly.
template <uint32_t kWidth>
void pack_gaps(const uint32_t* gaps, std::byte* words) noexcept {
  for (uint32_t run = 0; run < kIndexBlock / 32; ++run, gaps += 32, words += kWidth * 4) {
    uint32_t packed[kWidth + 1] = {};
    [&]<size_t... i>(std::index_sequence<i...>) {
      const auto put = [&]<size_t j>() {
        constexpr size_t kWord = j * kWidth / 32, kShift = j * kWidth % 32;
        packed[kWord] |= gaps[j] << kShift;
        if constexpr (kShift + kWidth > 32) packed[kWord + 1] |= gaps[j] >> (32 - kShift);
      };
      (put.template operator()<i>(), ...);
    }
    (std::make_index_sequence<32>());
    std::memcpy(words, packed, kWidth * 4);
  }
}

template <uint32_t kWidth>
void unpack_gaps(const std::byte* words, uint32_t* gaps) noexcept {
  constexpr uint32_t kMask = kWidth == 0 ? 0 : UINT32_MAX >> (32 - kWidth) % 32;
  for (uint32_t run = 0; run < kIndexBlock / 32; ++run, gaps += 32, words += kWidth * 4) {
    uint32_t packed[kWidth + 1];
    std::memcpy(packed, words, kWidth * 4);
    [&]<size_t... i>(std::index_sequence<i...>) {
      const auto get = [&]<size_t j>() {
        constexpr size_t kWord = j * kWidth / 32, kShift = j * kWidth % 32;
        uint32_t bits = packed[kWord] >> kShift;
        if constexpr (kShift + kWidth > 32) bits |= packed[kWord + 1] << (32 - kShift);
        return bits & kMask;
      };
      ((gaps[i] = get.template operator()<i>()), ...);
    }
    (std::make_index_sequence<32>());
  }
}
template <>
inline void unpack_gaps<0>(const std::byte*, uint32_t* gaps) noexcept {
  std::memset(gaps, 0, kIndexBlock * sizeof(*gaps));
}

using PackGaps = void (*)(const uint32_t* gaps, std::byte* words) noexcept;
using UnpackGaps = void (*)(const std::byte* words, uint32_t* gaps) noexcept;

// By width, 0 to 32.
inline constexpr auto kPackGaps = []<uint32_t... width>(std::integer_sequence<uint32_t, width...>) {
  return std::array<PackGaps, sizeof...(width)>{pack_gaps<width>...};
}
(std::make_integer_sequence<uint32_t, 33>());
inline constexpr auto kUnpackGaps =
    []<uint32_t... width>(std::integer_sequence<uint32_t, width...>) {
  return std::array<UnpackGaps, sizeof...(width)>{unpack_gaps<width>...};
}
(std::make_integer_sequence<uint32_t, 33>());

}  // namespace asyncmesh::kernels
