#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <unordered_set>

namespace asyncmesh {
namespace {

// The values are part of the wire: every rank of a job derives its subsets from them.
TEST(CounterRandom, GivesTheSameValuesForEver) {
  EXPECT_EQ(scramble(0x9E3779B97F4A7C15ULL), 0xE220A8397B1DCDAFULL);  // SplitMix64, seed 0
  EXPECT_EQ(mix(0, 0), 0xA706DD2F4D197E6FULL);
  EXPECT_EQ(mix(42, 0), 0x57E1FABA65107204ULL);
  EXPECT_EQ(mix(42, 1'000'000), 0x8505DA9E8A915C81ULL);
  CounterRandom random(42);
  EXPECT_EQ(random(), mix(42, 0));
  EXPECT_EQ(random(), mix(42, 1));
  EXPECT_EQ(CounterRandom(42, 1)(), mix(42, 1));
}

TEST(CounterRandom, DoesNotRepeatWithinAKey) {
  std::unordered_set<uint64_t> seen;
  for (uint64_t i = 0; i < 100'000; ++i) seen.insert(mix(7, i));
  EXPECT_EQ(seen.size(), 100'000U);
}

TEST(CounterRandom, FlipsHalfOfTheBitsWhenKeyOrCounterMovesByOne) {
  double by_key = 0;
  double by_counter = 0;
  constexpr int kDraws = 10'000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    by_key += std::popcount(mix(i, 5) ^ mix(i + 1, 5));
    by_counter += std::popcount(mix(5, i) ^ mix(5, i + 1));
  }
  EXPECT_NEAR(by_key / kDraws, 32, 0.3);
  EXPECT_NEAR(by_counter / kDraws, 32, 0.3);
}

TEST(CounterRandom, BelowIsUniform) {
  CounterRandom random(3);
  std::array<int, 10> counts{};
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t value = random.below(counts.size());
    ASSERT_LT(value, counts.size());
    ++counts[value];
  }
  double chi2 = 0;
  for (const int count : counts) chi2 += std::pow(count - kDraws / 10.0, 2) / (kDraws / 10.0);
  EXPECT_LT(chi2, 27.9);  // 9 degrees of freedom, p = 0.001
  EXPECT_EQ(random.below(1), 0U);
}

TEST(CounterRandom, UniformStaysInTheHalfOpenUnitInterval) {
  CounterRandom random(9);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
}

}  // namespace
}  // namespace asyncmesh
