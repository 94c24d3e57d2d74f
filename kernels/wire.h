// How values look on the wire, and in tables without fp32 masters.
//
//   kFloat32, kBfloat16, kFloat16   one word per value, little endian
//   kInt8, kInt4                    groups of kGroup values: 16 fp32 scales, one per kScaled
//   values,
//                                   then the codes: one byte each, or two to a byte, the even value
//                                   in the low half (two's complement)
//
//   | 16 scales (64 B) | 1,024 codes (1,024 or 512 B) | 16 scales | codes ...
//
// A group is a multiple of 64 bytes, so that one that starts a 16-byte aligned buffer leaves all
// others aligned, and any run of values that starts at a multiple of kGroup is a run of bytes. The
// last group has all 16 scales (those without values are 0) and as many codes as it has values.
//
// Scaled values. Q is 127 or 7. scale = max |x| / Q over its kScaled values; code = round(x * (Q /
// max)), clamped to +-Q; decoded as scale * code. Blocks with max |x| < kSmallestScaled have scale
// 0 and decode to +0: below it Q / max would overflow, and flush-to-zero would show. A block that
// holds a value that is not finite has a NaN scale and codes 1 (it decodes to NaN throughout), so
// that looking at the scales tells whether a contribution is finite.
//
// Rounding. To nearest, ties to even; or stochastic: down to the neighbour below the value's
// magnitude (for scaled codes: floor), plus one with the probability of what was cut off, so that
// the expected value is exact to the resolution of the 16 random bits. The random bits depend on
// (seed, number of the value) only: random_bits of kernels/random.h, whichever way the values are
// cut into calls. Never infinite from a finite value: what would overflow stays the largest finite
// one (stochastic only; nearest overflows as IEEE says). NaN and infinity are kept.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asyncmesh::kernels {

enum class Encoding : uint8_t {
  kFloat32 = 0,
  kBfloat16 = 1,
  kFloat16 = 2,
  kInt8 = 3,
  kInt4 = 4,
};

inline constexpr uint32_t kScaled = 64;
inline constexpr uint32_t kGroup = 1024;
inline constexpr uint32_t kScaleBytes = kGroup / kScaled * 4;
inline constexpr float kSmallestScaled = 0x1p-100F;

constexpr bool lossless(Encoding encoding) { return encoding == Encoding::kFloat32; }
constexpr bool scaled(Encoding encoding) { return encoding >= Encoding::kInt8; }
constexpr bool known(Encoding encoding) { return encoding <= Encoding::kInt4; }
// A table's own values: no scales.
constexpr bool storable(Encoding encoding) { return encoding <= Encoding::kFloat16; }

// Bytes of `count` encoded values; of a prefix only if `count` is a multiple of kGroup or the
// encoding is not scaled.
constexpr size_t encoded_bytes(Encoding encoding, uint64_t count) {
  if (!scaled(encoding)) return static_cast<size_t>(count) * (lossless(encoding) ? 4 : 2);
  const uint64_t rest = count % kGroup;
  const uint64_t halves = encoding == Encoding::kInt4 ? 2 : 1;
  return count / kGroup * (kScaleBytes + kGroup / halves) +
         (rest == 0 ? 0 : kScaleBytes + (rest + halves - 1) / halves);
}

enum class Rounding : uint8_t { kNearest = 0, kStochastic = 1 };

// What a run of values is encoded as.
struct Wire {
  Encoding encoding = Encoding::kFloat32;
  Rounding rounding = Rounding::kNearest;
  uint64_t seed = 0;  // stochastic: per round and rank
};

}  // namespace asyncmesh::kernels
