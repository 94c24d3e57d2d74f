// bf16 and fp16 by integer arithmetic, for one value: what every backend agrees on bit by bit.
//
// Round to nearest, ties to even. NaN stays a quiet NaN with its sign and leading payload bits, as
// F16C does. The two halfway tricks use fp32 additions that are exact or round once to nearest, so
// flush-to-zero does not touch them.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace asyncmesh::kernels {

ASYNCMESH_INLINE uint32_t bits_of(float value) noexcept {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

ASYNCMESH_INLINE float float_of(uint32_t bits) noexcept {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

ASYNCMESH_INLINE uint16_t to_bfloat16(float value) noexcept {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40U;
  return static_cast<uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}

ASYNCMESH_INLINE float from_bfloat16(uint16_t value) noexcept {
  return float_of(static_cast<uint32_t>(value) << 16);
}

ASYNCMESH_INLINE uint16_t to_float16(float value) noexcept {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  uint32_t half;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  } else if (magnitude >= 0x477FF000U) {  // 65520 and above round to infinity
    half = 0x7C00U;
  } else if (magnitude < 0x38800000U) {  // below 2^-14: the addition rounds to multiples of 2^-24
    half = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
  } else {
    half = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  }
  return static_cast<uint16_t>(half | ((bits >> 16) & 0x8000U));
}

ASYNCMESH_INLINE float from_float16(uint16_t value) noexcept {
  const uint32_t sign = (value & 0x8000U) << 16;
  const uint32_t exponent = value & 0x7C00U;
  const uint32_t shifted = (value & 0x7FFFU) << 13;
  if (exponent == 0x7C00U) {
    const uint32_t quiet = (value & 0x3FFU) != 0 ? 0x400000U : 0U;
    return float_of(sign | 0x7F800000U | shifted | quiet);
  }
  if (exponent == 0) {  // zero or subnormal: (2^-14 + mantissa 2^-24) - 2^-14
    const float small = float_of(0x38800000U | shifted) - float_of(0x38800000U);
    return float_of(sign | bits_of(small));
  }
  return float_of(sign | (shifted + 0x38000000U));
}

}  // namespace asyncmesh::kernels
