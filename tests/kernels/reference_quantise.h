// Encodings value by value, from the definitions in wire.h and scaled.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/scaled.h"

namespace asyncmesh::kernels::reference {

template <class Word>
void put(std::vector<std::byte>& out, size_t at, Word word) {
  std::memcpy(out.data() + at, &word, sizeof(word));
}

inline uint16_t half_word(float value, const Wire& wire, uint64_t number) {
  const bool bfloat = wire.encoding == Encoding::kBfloat16;
  if (wire.rounding == Rounding::kNearest) return bfloat ? to_bfloat16(value) : to_float16(value);
  const uint32_t random = random_bits(wire.seed, number);
  return bfloat ? to_bfloat16_stochastic(value, random) : to_float16_stochastic(value, random);
}

inline int32_t code(float value, const BlockScale& block, const Wire& wire, uint64_t number) {
  if (wire.rounding == Rounding::kNearest) return code_nearest(value, block, wire.encoding);
  return code_stochastic(value, block, wire.encoding, random_bits(wire.seed, number));
}

inline void scaled_block(const float* values, uint64_t begin, uint64_t end, const Wire& wire,
                         uint64_t first, std::vector<std::byte>& out) {
  const uint64_t group = begin / kGroup * kGroup;
  const size_t start = encoded_bytes(wire.encoding, group);
  uint32_t largest = 0;
  for (uint64_t i = begin; i < end; ++i) {
    largest = std::max(largest, bits_of(values[i]) & 0x7FFFFFFFU);
  }
  const BlockScale block = block_scale(largest, wire.encoding);
  put(out, start + (begin - group) / kScaled * 4, block.scale);
  for (uint64_t i = begin; i < end; ++i) {
    const auto bits = static_cast<uint8_t>(code(values[i], block, wire, first + i));
    std::byte* const codes = out.data() + start + kScaleBytes;
    if (wire.encoding == Encoding::kInt8) {
      codes[i - group] = std::byte{bits};
    } else {
      const auto half = static_cast<uint8_t>(bits & 0x0F);
      codes[(i - group) / 2] |= std::byte{static_cast<uint8_t>(i % 2 == 0 ? half : half << 4)};
    }
  }
}

inline std::vector<std::byte> quantised(const float* values, uint64_t count, const Wire& wire,
                                        uint64_t first) {
  std::vector<std::byte> out(encoded_bytes(wire.encoding, count));
  for (uint64_t begin = 0; begin < count; begin += kScaled) {
    const uint64_t end = std::min(count, begin + kScaled);
    if (scaled(wire.encoding)) {
      scaled_block(values, begin, end, wire, first, out);
      continue;
    }
    for (uint64_t i = begin; i < end; ++i) {
      if (lossless(wire.encoding)) {
        put(out, i * 4, values[i]);
      } else {
        put(out, i * 2, half_word(values[i], wire, first + i));
      }
    }
  }
  return out;
}

inline float dequantised(const std::byte* encoded, Encoding encoding, uint64_t i) {
  uint16_t word = 0;
  float value = 0;
  if (lossless(encoding)) {
    std::memcpy(&value, encoded + i * 4, sizeof(value));
    return value;
  }
  if (!scaled(encoding)) {
    std::memcpy(&word, encoded + i * 2, sizeof(word));
    return encoding == Encoding::kBfloat16 ? from_bfloat16(word) : from_float16(word);
  }
  const uint64_t in_group = i % kGroup;
  const std::byte* const group = encoded + encoded_bytes(encoding, i - in_group);
  std::memcpy(&value, group + in_group / kScaled * 4, sizeof(value));
  if (encoding == Encoding::kInt8) {
    return decode_code(static_cast<int8_t>(group[kScaleBytes + in_group]), value);
  }
  const auto both = static_cast<uint32_t>(group[kScaleBytes + in_group / 2]);
  const auto half = static_cast<int32_t>(i % 2 == 0 ? both & 0x0F : both >> 4);
  return decode_code(half >= 8 ? half - 16 : half, value);
}

}  // namespace asyncmesh::kernels::reference
