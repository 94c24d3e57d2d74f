#include "averaging/binomial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace asyncmesh {
namespace {

double probability(uint64_t trials, double p, uint64_t heads) {
  const auto n = static_cast<double>(trials);
  const auto k = static_cast<double>(heads);
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                  k * std::log(p) + (n - k) * std::log1p(-p));
}

// An even grid of uniforms gives every size as often as its probability says.
TEST(Binomial, HasTheDistribution) {
  struct Case {
    uint64_t trials;
    double p;
  };
  for (const Case& c :
       {Case{1, 0.05}, Case{2, 0.5}, Case{7, 0.3}, Case{30, 0.9}, Case{200, 0.02}}) {
    const Binomial binomial(c.trials, c.p);
    constexpr uint64_t kGrid = 100'000;
    std::vector<double> share(c.trials + 1, 0.0);
    for (uint64_t i = 0; i < kGrid; ++i) {
      share.at(binomial.draw(i * (UINT64_MAX / kGrid) + 1)) += 1.0 / kGrid;
    }
    for (uint64_t heads = 0; heads <= c.trials; ++heads) {
      ASSERT_NEAR(share[heads], probability(c.trials, c.p, heads), 3.0 / kGrid) << c.trials;
    }
  }
}

TEST(Binomial, HasMeanAndVarianceOfManyTrials) {
  for (const uint64_t trials : {uint64_t{5000}, uint64_t{1} << 24}) {
    constexpr double kP = 0.05;
    constexpr int kDraws = 3000;
    const Binomial binomial(trials, kP);
    CounterRandom random(trials);
    const double mean = static_cast<double>(trials) * kP;
    const double variance = mean * (1 - kP);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double off = static_cast<double>(binomial.draw(random())) - mean;
      sum += off;
      squares += off * off;
    }
    EXPECT_NEAR(sum / kDraws, 0.0, 4.5 * std::sqrt(variance / kDraws));
    EXPECT_NEAR(squares / kDraws / variance, 1.0, 4.5 * std::sqrt(2.0 / kDraws));
  }
}

TEST(Binomial, StaysWithinItsBounds) {
  for (const uint64_t trials : {1ULL, 10ULL, 1000ULL, 1ULL << 20, 1ULL << 40}) {
    for (const double p : {1e-9, 0.05, 0.5, 0.999}) {
      const Binomial binomial(trials, p);
      EXPECT_LE(binomial.most(), trials);
      for (const uint64_t uniform : {uint64_t{0}, UINT64_MAX / 3, UINT64_MAX - 1, UINT64_MAX}) {
        const uint64_t drawn = binomial.draw(uniform);
        EXPECT_GE(drawn, binomial.least());
        EXPECT_LE(drawn, binomial.most());
      }
    }
  }
}

TEST(Binomial, LeavesOutNoMoreThanATinyTail) {
  for (const uint64_t trials : {100ULL, 10'000ULL, 1'000'000ULL}) {
    const double p = 0.05;
    const Binomial binomial(trials, p);
    const uint64_t beyond = binomial.most() + 1;
    if (beyond > trials) continue;
    // Beyond 8 deviations the terms fall at least by half from one to the next.
    EXPECT_LT(2 * probability(trials, p, beyond), 1e-14) << trials;
  }
}

TEST(Binomial, CertaintyTakesAll) {
  const Binomial binomial(77, 1.0);
  EXPECT_EQ(binomial.draw(0), 77U);
  EXPECT_EQ(binomial.draw(UINT64_MAX), 77U);
  EXPECT_EQ(binomial.most(), 77U);
}

// The values are part of the protocol: ranks of different builds must agree.
TEST(Binomial, GoldenValues) {
  constexpr uint64_t kUniform = 0x9E3779B97F4A7C15ULL;
  EXPECT_EQ(Binomial(20, 0.05).draw(kUniform), 0U);
  EXPECT_EQ(Binomial(1000, 0.05).draw(kUniform), 44U);
  EXPECT_EQ(Binomial(1'000'000, 0.2).draw(kUniform), 200'350U);
  EXPECT_EQ(Binomial(uint64_t{1} << 40, 0.05).draw(kUniform), 54'975'781'189U);
}

}  // namespace
}  // namespace asyncmesh
