// The counter-based generator of stochastic rounding: 16 bits per value, a function of the seed and
// of the value's number alone, the same on every backend.
//
// The values are cut into rows of kScaled = 64. A row has a 64-bit hash of (seed, row); value e of
// it takes word e % 32, low half for e < 32, high half otherwise. One 32-bit word thus serves two
// values that lie a constant distance apart, which vectors of every width can keep.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace asyncmesh::kernels {

// Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators", variant 13.
ASYNCMESH_INLINE uint64_t mix64(uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

ASYNCMESH_INLINE uint32_t row_key(uint64_t seed, uint64_t row) noexcept {
  return static_cast<uint32_t>(mix64(seed ^ mix64(row)) >> 32);
}

// A bijection of 32-bit words with low bias (two multiplications, three shifts).
ASYNCMESH_INLINE uint32_t mix32(uint32_t x) noexcept {
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  return x ^ (x >> 16);
}

ASYNCMESH_INLINE uint32_t row_word(uint32_t key, uint32_t word) noexcept {
  return mix32(key + word * 0x9E3779B9U);
}

ASYNCMESH_INLINE uint32_t row_bits(uint32_t key, uint32_t in_row) noexcept {
  const uint32_t word = row_word(key, in_row % 32);
  return in_row < 32 ? word & 0xFFFFU : word >> 16;
}

ASYNCMESH_INLINE uint32_t random_bits(uint64_t seed, uint64_t number) noexcept {
  return row_bits(row_key(seed, number / 64), static_cast<uint32_t>(number % 64));
}

}  // namespace asyncmesh::kernels
