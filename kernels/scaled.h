// Scaled and stochastically rounded encodings of one value: the arithmetic of wire.h written once,
// so that every backend agrees bit by bit. Every operation is exact or rounds once, and no operand
// that matters is subnormal: flush-to-zero does not show.
#pragma once

#include <cstdint>

#include "kernels/encoding.h"
#include "kernels/host_device.h"
#include "kernels/random.h"
#include "kernels/wire.h"

namespace asyncmesh::kernels {

inline constexpr uint32_t kInfinityBits = 0x7F800000U;
inline constexpr uint32_t kNotFiniteScale = 0x7FC00000U;  // and codes 1
// Blocks saturate here: with FLT_MAX itself, scale * 127 would round to infinity.
inline constexpr float kLargestScaled = 0x1.FFFFFCp127F;

// The largest code, Q.
ASYNCMESH_INLINE constexpr int32_t code_limit(Encoding encoding) noexcept {
  return encoding == Encoding::kInt8 ? 127 : 7;
}

// A block of kScaled values, from the largest of their magnitudes as bits (an integer comparison,
// which ranks NaN above infinity).
struct BlockScale {
  uint32_t scale;  // bits of the fp32 that travels
  float factor;    // Q / max; 0 where all codes are the same
  bool finite;
};

ASYNCMESH_INLINE BlockScale block_scale(uint32_t largest_bits, Encoding encoding) noexcept {
  if (largest_bits >= kInfinityBits) return {kNotFiniteScale, 0.0F, false};
  const float found = float_of(largest_bits);
  if (!(found >= kSmallestScaled)) return {0U, 0.0F, true};
  const float largest = found < kLargestScaled ? found : kLargestScaled;
  const auto limit = static_cast<float>(code_limit(encoding));
  return {bits_of(largest / limit), limit / largest, true};
}

// Whether a scale that came over the wire is one that quantise makes of finite values.
ASYNCMESH_INLINE bool finite_scale(uint32_t scale_bits, Encoding encoding) noexcept {
  const uint32_t most = bits_of(kLargestScaled / static_cast<float>(code_limit(encoding)));
  return (scale_bits & 0x7FFFFFFFU) <= most;
}

// Nearest integer, ties to even, of |value| < 2^23: the sum has no bits below 1.
ASYNCMESH_INLINE int32_t nearest_integer(float value) noexcept {
  const uint32_t bits = bits_of(value);
  const float magnitude = float_of(bits & 0x7FFFFFFFU) + 0x1p23F;
  const auto integer = static_cast<int32_t>(bits_of(magnitude) - 0x4B000000U);
  return (bits >> 31) != 0 ? -integer : integer;
}

ASYNCMESH_INLINE int32_t clamped_code(int32_t code, const BlockScale& block,
                                      Encoding encoding) noexcept {
  const int32_t limit = code_limit(encoding);
  if (!block.finite) return 1;
  return code > limit ? limit : (code < -limit ? -limit : code);
}

ASYNCMESH_INLINE int32_t code_nearest(float value, const BlockScale& block,
                                      Encoding encoding) noexcept {
  return clamped_code(nearest_integer(value * block.factor), block, encoding);
}

// `random` has 16 bits. The product counts in units of 2^-16, so that the sum is exact.
ASYNCMESH_INLINE int32_t code_stochastic(float value, const BlockScale& block, Encoding encoding,
                                         uint32_t random) noexcept {
  const int32_t fixed = nearest_integer(value * block.factor * 0x1p16F);
  return clamped_code((fixed + static_cast<int32_t>(random)) >> 16, block, encoding);
}

ASYNCMESH_INLINE float decode_code(int32_t code, float scale) noexcept {
  return scale * static_cast<float>(code);
}

ASYNCMESH_INLINE uint16_t to_bfloat16_stochastic(float value, uint32_t random) noexcept {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= kInfinityBits) return to_bfloat16(value);
  const uint32_t rounded = (magnitude + random) >> 16;
  return static_cast<uint16_t>((rounded < 0x7F7FU ? rounded : 0x7F7FU) | ((bits >> 16) & 0x8000U));
}

ASYNCMESH_INLINE uint16_t to_float16_stochastic(float value, uint32_t random) noexcept {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= kInfinityBits) return to_float16(value);
  // Below 2^-14 in units of 2^-40, of which 2^16 make the spacing of subnormal halves; truncation
  // is the floor of a magnitude. Above, 13 bits are cut off.
  const uint32_t half = magnitude < 0x38800000U
                            ? (static_cast<uint32_t>(float_of(magnitude) * 0x1p40F) + random) >> 16
                            : (magnitude - 0x38000000U + (random >> 3)) >> 13;
  return static_cast<uint16_t>((half < 0x7BFFU ? half : 0x7BFFU) | ((bits >> 16) & 0x8000U));
}

}  // namespace asyncmesh::kernels
