// Random subsets in opportunistic mode.
#include <gtest/gtest.h>

#include "averaging/replicas.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;

AveragerConfig random_config(Rule rule, double fraction, uint32_t window) {
  AveragerConfig config = oracle_config(rule, fraction, window);
  config.mode = AveragingMode::kOpportunistic;
  config.selection = Selection::kRandom;
  return config;
}

TEST(RandomRounds, BringReplicasTogether) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CounterRandom random(seed);
    AveragerConfig config = random_config(Rule::kEma, 0.2, 6);
    config.seed = seed;
    config.granularity = 2;
    Replicas replicas(3, config, {30, 3, 17}, {.payload_bytes = 16});
    for (uint32_t r = 0; r < 3; ++r) {
      replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform()); });
    }
    for (int i = 0; i < 1500; ++i) {
      const auto r = static_cast<uint32_t>(random.below(3));
      ASSERT_LE(replicas.call(r, {}).open, 6U);
      if (random.below(3) == 0) replicas.pump();
    }
    for (uint64_t i = 0; i < 50; ++i) {
      for (uint32_t r = 1; r < 3; ++r) {
        ASSERT_NEAR(replicas.weights(r)[i], replicas.weights(0)[i], 1e-4) << seed;
      }
    }
    EXPECT_EQ(replicas.averager(0).stats().frames_discarded, 0U);
    EXPECT_LE(replicas.averager(0).stats().q, 1U);
  }
}

// Most rounds of three elements at 5 % are empty. They are rounds all the same.
TEST(RandomRounds, WithoutAnElementComeAndGo) {
  AveragerConfig config = random_config(Rule::kAverage, 0.05, 2);
  Replicas replicas(2, config, {3});
  replicas.weights(0) = {2.0F, 2.0F, 2.0F};
  for (int call = 0; call < 400; ++call) {
    for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(replicas.call(r, {}).skipped, 0U);
    replicas.pump();
  }
  EXPECT_EQ(replicas.averager(0).stats().rounds_applied, 399U);
  EXPECT_EQ(replicas.weights(0), (std::vector<float>{1.0F, 1.0F, 1.0F}));
  EXPECT_LT(replicas.averager(0).stats().bytes_posted, 400U * 3 * 4 / 10);
}

// Random subsets of a fifth: at a delay of 9 rounds the gain must stay below 0.58, and is kept at
// half of that.
TEST(RandomRounds, TheGuardRaisesTheMomentumWhenTheDelayGrows) {
  AveragerConfig config = random_config(Rule::kEma, 0.2, 10);
  Replicas replicas(2, config, {40});
  const auto lap = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      for (uint32_t r = 0; r < 2; ++r) replicas.call(r, {});
    }
    replicas.pump();
  };
  const AveragerStats& stats = replicas.averager(0).stats();
  for (int i = 0; i < 5; ++i) lap(1);
  EXPECT_EQ(stats.momentum_raised, 0U);
  for (int i = 0; i < 5; ++i) lap(10);
  EXPECT_GT(stats.momentum_raised, 0U);
  EXPECT_EQ(stats.q, 2U);  // 9 x 0.2
  EXPECT_NEAR(stats.margin, 0.5, 1e-6);
}

}  // namespace
}  // namespace asyncmesh::test
