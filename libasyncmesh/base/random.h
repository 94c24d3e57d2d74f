// Counter-based random numbers: a pure function of (key, counter), so that every rank draws the
// same numbers without talking, and a draw can be repeated or skipped at no cost.
//
// Not for secrets. The values are part of the product's behaviour (subsets are derived from them on
// every rank): a change here is a change of the wire version.
#pragma once

#include <cstdint>

namespace asyncmesh {

// The finaliser of SplitMix64 (a bijection).
constexpr uint64_t scramble(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// For a fixed key a bijection of the counter: a SplitMix64 stream whose start is the scrambled key.
constexpr uint64_t mix(uint64_t key, uint64_t counter) noexcept {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
  return scramble(scramble(key + kGolden) + (counter + 1) * kGolden);
}

// Draws number `counter`, `counter + 1`, ... of stream `key`. A value type; one thread.
class CounterRandom {
 public:
  using result_type = uint64_t;  // usable as a standard generator
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }

  explicit constexpr CounterRandom(uint64_t key, uint64_t counter = 0) noexcept
      : key_(key), counter_(counter) {}

  constexpr uint64_t operator()() noexcept { return mix(key_, counter_++); }
  // Uniform in [0, bound), bound > 0. The bias is below bound / 2^64.
  constexpr uint64_t below(uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>((*this)()) * bound) >> 64);
  }
  // Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform() noexcept {
    return static_cast<double>((*this)() >> 11) * (1.0 / 9007199254740992.0);
  }

 private:
  uint64_t key_;
  uint64_t counter_;
};

}  // namespace asyncmesh
