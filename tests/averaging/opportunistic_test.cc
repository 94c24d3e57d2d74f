// Opportunistic mode: nobody waits, nothing is lost, whatever the speeds.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "averaging/replicas.h"
#include "base/random.h"
#include "kernels/workers.h"
#include "support/alloc_guard.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;

AveragerConfig opportunistic(Rule rule, double fraction, uint32_t window) {
  AveragerConfig config = oracle_config(rule, fraction, window);
  config.mode = AveragingMode::kOpportunistic;
  return config;
}

TEST(Opportunistic, AppliesARoundWhenAllFramesAreThere) {
  Replicas replicas(3, opportunistic(Rule::kAverage, 1.0, 1), {2});
  for (uint32_t r = 0; r < 3; ++r)
    replicas.weights(r) = {1.0F * static_cast<float>(r), 3.0F * static_cast<float>(r)};
  EXPECT_EQ(replicas.call(0, {}).started, 1U);
  EXPECT_EQ(replicas.call(1, {}).started, 1U);
  replicas.pump();
  EXPECT_EQ(replicas.call(0, {}).applied, 0U);  // replica 2 is missing
  EXPECT_EQ(replicas.call(2, {}).started, 1U);
  replicas.pump();
  const CallResult result = replicas.call(0, {});
  EXPECT_EQ(result.applied, 1U);
  EXPECT_EQ(replicas.weights(0), (std::vector<float>{1.0F, 3.0F}));
  EXPECT_EQ(result.started, 1U);
  EXPECT_EQ(result.open, 1U);
}

TEST(Opportunistic, StartsNoRoundWhileTheWindowIsFull) {
  Replicas replicas(2, opportunistic(Rule::kEma, 0.25, 3), {8});
  for (int call = 0; call < 3; ++call) EXPECT_EQ(replicas.call(0, {}).skipped, 0U);
  for (int call = 0; call < 5; ++call) {
    const CallResult result = replicas.call(0, {});
    EXPECT_EQ(result.skipped, 1U);
    EXPECT_EQ(result.started, 0U);
    EXPECT_EQ(result.open, 3U);
    EXPECT_EQ(result.wait_ns, 0);
  }
  EXPECT_EQ(replicas.averager(0).stats().rounds_skipped, 5U);
  EXPECT_EQ(replicas.waits(0), 0U);
}

TEST(Opportunistic, FramesOfRoundsNotYetStartedHereWait) {
  Replicas replicas(2, opportunistic(Rule::kAverage, 0.25, 4), {8});
  replicas.weights(0) = {2, 2, 2, 2, 2, 2, 2, 2};
  for (int call = 0; call < 4; ++call) replicas.call(0, {});
  replicas.pump();
  for (int call = 0; call < 4; ++call) {
    EXPECT_EQ(replicas.call(1, {}).started, 1U);
  }
  EXPECT_EQ(replicas.averager(1).stats().rounds_applied, 3U);
  EXPECT_EQ(replicas.averager(1).stats().frames_discarded, 0U);
}

TEST(Opportunistic, ReportsAgesInRoundsCallsAndTime) {
  Replicas replicas(2, opportunistic(Rule::kEma, 0.25, 8), {8});
  replicas.call(0, {});  // round 0
  replicas.clock().advance(500);
  replicas.call(0, {});  // round 1
  replicas.clock().advance(500);
  replicas.call(1, {});
  replicas.pump();
  const CallResult result = replicas.call(0, {});  // applies round 0, starts 2
  EXPECT_EQ(result.applied, 1U);
  EXPECT_EQ(result.age_rounds, 1U);
  EXPECT_EQ(result.age_calls, 2U);
  EXPECT_EQ(result.age_ns, 1000);
}

// Both replicas drift by 1 per call; the fast one makes `ratio` calls for each of the slow one.
void expect_fair_progress(uint32_t ratio, Rule rule) {
  constexpr uint32_t kWindow = 10;
  Replicas replicas(2, opportunistic(rule, 0.05, kWindow), {40});
  const auto mean = [&] { return (replicas.weights(0)[7] + replicas.weights(1)[7]) / 2.0; };
  const auto lap = [&] {
    for (uint32_t i = 0; i < ratio; ++i) {
      replicas.add(0, [](uint64_t) { return 1.0F; });
      const CallResult result = replicas.call(0, {});
      ASSERT_LE(result.open, kWindow);
      ASSERT_EQ(result.wait_ns, 0);
      replicas.pump();
    }
    replicas.add(1, [](uint64_t) { return 1.0F; });
    ASSERT_LE(replicas.call(1, {}).open, kWindow);
    replicas.pump();
  };
  for (int i = 0; i < 400; ++i) lap();
  const double start = mean();
  constexpr int kLaps = 1000;
  for (int i = 0; i < kLaps; ++i) lap();
  const double fair = kLaps * (ratio + 1.0) / 2;
  EXPECT_GE((mean() - start) / fair, 0.99) << ratio;
  EXPECT_LE((mean() - start) / fair, 1.01) << ratio;
  EXPECT_EQ(replicas.waits(0) + replicas.waits(1), 0U);
  // Paced by the slow one: as many rounds as it makes calls, no more than the window ahead.
  EXPECT_NEAR(static_cast<double>(replicas.averager(0).stats().rounds_applied), 1400.0, 30.0);
  EXPECT_LT(std::abs(replicas.weights(0)[7] - replicas.weights(1)[7]), 25.0 * ratio);
}

TEST(Opportunistic, AReplicaThreeTimesAsFastLosesNoProgress) {
  expect_fair_progress(3, Rule::kEma);
  expect_fair_progress(3, Rule::kDelta);
}

TEST(Opportunistic, AReplicaTenTimesAsFastLosesNoProgress) {
  expect_fair_progress(10, Rule::kEma);
  expect_fair_progress(10, Rule::kDelta);
}

// Random speeds, late deliveries, uneven call counts: every round that is applied is applied by
// all, and the replicas come together when the steps stop.
TEST(Opportunistic, ReplicasComeTogetherWhenStepsStop) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CounterRandom random(seed);
    AveragerConfig config = opportunistic(Rule::kEma, 0.2, 6);
    config.redraw = Redraw::kEveryCycle;
    Replicas replicas(4, config, {30, 3, 17}, {.payload_bytes = 16});
    for (uint32_t r = 0; r < 4; ++r) {
      replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform()); });
    }
    for (int i = 0; i < 1500; ++i) {
      const auto r = static_cast<uint32_t>(random.below(4));
      ASSERT_LE(replicas.call(r, {}).open, 6U);
      if (random.below(3) == 0) replicas.pump();
    }
    for (uint64_t i = 0; i < 50; ++i) {
      for (uint32_t r = 1; r < 4; ++r) {
        ASSERT_NEAR(replicas.weights(r)[i], replicas.weights(0)[i], 1e-4) << seed;
      }
    }
    EXPECT_EQ(replicas.averager(0).stats().frames_discarded, 0U);
  }
}

// Credit comes back a round trip late: twice the window in rounds is on the way or waiting for it.
TEST(Opportunistic, AtALatencyOfOneWindowEveryCallStartsARound) {
  constexpr uint32_t kWindow = 10;
  Replicas replicas(2, opportunistic(Rule::kEma, 0.05, kWindow), {100});
  for (uint32_t call = 1; call <= 20 * kWindow; ++call) {
    for (uint32_t r = 0; r < 2; ++r) ASSERT_EQ(replicas.call(r, {}).skipped, 0U) << call;
    if (call % kWindow == 0) replicas.pump();
  }
  EXPECT_EQ(replicas.averager(0).stats().rounds_applied, 19U * kWindow);
}

TEST(Opportunistic, TheGuardRaisesTheMomentumWhenQGrows) {
  AveragerConfig config = opportunistic(Rule::kEma, 0.3, 9);  // N = 4, q up to 2
  Replicas replicas(2, config, {40});
  for (int i = 0; i < 9; ++i) replicas.call(0, {});
  for (int i = 0; i < 9; ++i) replicas.call(1, {});
  EXPECT_EQ(replicas.averager(0).stats().momentum_raised, 0U);
  for (int i = 0; i < 40; ++i) {
    replicas.pump();
    replicas.call(0, {});
    for (int j = 0; j < 8; ++j) replicas.call(0, {});
    replicas.pump();
    for (int j = 0; j < 9; ++j) replicas.call(1, {});
  }
  const AveragerStats& stats = replicas.averager(0).stats();
  EXPECT_EQ(stats.q, 2U);
  EXPECT_GT(stats.momentum_raised, 0U);
  EXPECT_GT(stats.margin, 0.45);
}

TEST(Opportunistic, WeightsCount) {
  Replicas replicas(2, opportunistic(Rule::kAverage, 1.0, 1), {1});
  replicas.weights(0) = {4.0F};
  replicas.weights(1) = {8.0F};
  replicas.call(0, {.weight = 3.0F});
  replicas.call(1, {.weight = 1.0F});
  replicas.pump();
  replicas.call(0, {});
  EXPECT_EQ(replicas.weights(0)[0], 5.0F);
}

TEST(Opportunistic, AGhostReceivesAndContributesNothing) {
  Replicas replicas(3, opportunistic(Rule::kAverage, 1.0, 1), {1});
  replicas.weights(0) = {4.0F};
  replicas.weights(1) = {8.0F};
  replicas.weights(2) = {1000.0F};
  replicas.call(0, {});
  replicas.call(1, {});
  replicas.call(2, {.weight = 0.0F});
  replicas.pump();
  for (uint32_t r = 0; r < 3; ++r) {
    replicas.call(r, {});
    EXPECT_EQ(replicas.weights(r)[0], 6.0F);
  }
}

TEST(Opportunistic, FewerThanTwoContributorsWriteNothingNorTheEma) {
  Replicas replicas(2, opportunistic(Rule::kEma, 1.0, 1), {1});
  replicas.weights(0) = {4.0F};
  replicas.weights(1) = {8.0F};
  std::vector<std::byte> before(replicas.averager(1).state_bytes());
  std::vector<std::byte> after(before.size());
  ASSERT_TRUE(replicas.averager(1).save(before).ok());
  replicas.call(0, {.weight = 0.0F});
  replicas.call(1, {});
  replicas.pump();
  replicas.add(1, [](uint64_t) { return 1.0F; });
  EXPECT_EQ(replicas.call(1, {}).applied, 0U);
  EXPECT_EQ(replicas.weights(1)[0], 9.0F);
  EXPECT_EQ(replicas.averager(1).stats().too_few, 1U);
  ASSERT_TRUE(replicas.averager(1).save(after).ok());
  EXPECT_TRUE(std::equal(before.begin() + 32, before.end(), after.begin() + 32));
}

TEST(Opportunistic, AContributionThatIsNotFiniteIsLeftOutWhole) {
  // Pieces of 4 values: the broken value sits in the second of three.
  Replicas replicas(3, opportunistic(Rule::kAverage, 1.0, 1), {12}, {.payload_bytes = 16});
  for (uint32_t r = 0; r < 3; ++r)
    replicas.weights(r).assign(12, r == 2 ? 100.0F : 2.0F * static_cast<float>(r));
  replicas.weights(2)[5] = std::numeric_limits<float>::quiet_NaN();
  for (uint32_t r = 0; r < 3; ++r) replicas.call(r, {});
  replicas.pump();
  for (uint32_t r = 0; r < 3; ++r) {
    replicas.call(r, {});
    for (const float w : replicas.weights(r)) EXPECT_EQ(w, 1.0F);
    EXPECT_EQ(replicas.averager(r).stats().not_finite, 1U);
  }
}

TEST(Opportunistic, TwoOfThreeNotFiniteWriteNothing) {
  Replicas replicas(3, opportunistic(Rule::kAverage, 1.0, 1), {2});
  for (uint32_t r = 0; r < 3; ++r) {
    replicas.weights(r) = {1.0F, r == 0 ? 1.0F : std::numeric_limits<float>::infinity()};
  }
  for (uint32_t r = 0; r < 3; ++r) replicas.call(r, {});
  replicas.pump();
  EXPECT_EQ(replicas.call(0, {}).applied, 0U);
  EXPECT_EQ(replicas.averager(0).stats().not_finite, 2U);
  EXPECT_EQ(replicas.averager(0).stats().too_few, 1U);
}

TEST(Opportunistic, TheMirrorFollowsWhatIsWritten) {
  Replicas replicas(2, opportunistic(Rule::kAverage, 0.5, 1), {4, 3});
  std::vector<float> copy(7, -1.0F);
  const Tensors views = replicas.table(copy);
  const kernels::ParameterTable mirror = views;
  for (uint32_t r = 0; r < 2; ++r) replicas.weights(r).assign(7, 2.0F * static_cast<float>(r));
  replicas.call(0, {});
  replicas.call(1, {});
  replicas.pump();
  replicas.call(0, {.mirror = &mirror});
  const std::vector<uint32_t> parts = parts_of_elements(replicas.averager(0), 0);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(copy[i], parts[i] == 0 ? 1.0F : -1.0F);
}

TEST(Opportunistic, AloneNothingIsPostedAndNothingWritten) {
  Replicas replicas(1, opportunistic(Rule::kEma, 0.05, 10), {100});
  CounterRandom random(1);
  replicas.add(0, [&](uint64_t) { return static_cast<float>(random.uniform()); });
  const std::vector<float> before = replicas.weights(0);
  for (int call = 0; call < 50; ++call) {
    const CallResult result = replicas.call(0, {});
    EXPECT_EQ(result.started, 1U);
    EXPECT_EQ(result.applied + result.skipped + result.open + result.bytes_posted, 0U);
  }
  EXPECT_EQ(replicas.weights(0), before);
  EXPECT_EQ(replicas.averager(0).stats().too_few, 50U);
}

// A lossy encoding: what it cannot hold stays local instead of being lost.
TEST(Opportunistic, SmallStepsSurviveALossyEncoding) {
  AveragerConfig config = opportunistic(Rule::kDelta, 0.5, 2);
  config.encoding = kernels::Encoding::kBfloat16;
  Replicas replicas(2, config, {4});
  for (uint32_t r = 0; r < 2; ++r) replicas.weights(r).assign(4, 1.0F);
  constexpr int kCalls = 1000;
  constexpr float kStep = 1e-5F;  // far below the spacing of bf16 at 1, which is 2^-7
  for (int call = 0; call < kCalls; ++call) {
    for (uint32_t r = 0; r < 2; ++r) {
      replicas.add(r, [](uint64_t) { return kStep; });
      replicas.call(r, {});
    }
    replicas.pump();
  }
  const double mean = (replicas.weights(0)[0] + replicas.weights(1)[0]) / 2.0;
  EXPECT_NEAR((mean - 1.0) / (kCalls * kStep), 1.0, 0.01);
}

TEST(Opportunistic, LossyRoundsStillBringReplicasTogether) {
  AveragerConfig config = opportunistic(Rule::kEma, 0.25, 2);
  config.encoding = kernels::Encoding::kFloat16;
  Replicas replicas(2, config, {16}, {.payload_bytes = 16});
  CounterRandom random(9);
  for (uint32_t r = 0; r < 2; ++r) {
    replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform()); });
  }
  for (int call = 0; call < 200; ++call) {
    replicas.call(0, {});
    replicas.call(1, {});
    replicas.pump();
  }
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(replicas.weights(0)[i], replicas.weights(1)[i], 2e-3);
  }
}

void expect_no_allocation(const AveragerConfig& config, const std::vector<uint64_t>& tensors,
                          const Replicas::Options& options) {
  Replicas replicas(3, config, tensors, options);
  const auto lap = [&] {
    for (uint32_t r = 0; r < 3; ++r) {
      CallResult result;
      if (!replicas.averager(r).call({}, &result).ok()) return false;
      replicas.pump();
    }
    return true;
  };
  ASSERT_TRUE(lap());
  ASSERT_TRUE(lap());
  constexpr uint64_t kLaps = 50;
  const AllocGuard guard;
  for (uint64_t i = 0; i < kLaps; ++i) {
    if (!lap()) FAIL();
  }
  EXPECT_EQ(guard.in_process(), 0U);
  EXPECT_GT(replicas.averager(0).stats().rounds_applied, kLaps - 10);
}

TEST(Opportunistic, ACallAllocatesNothingAfterWarmUp) {
  AveragerConfig config = opportunistic(Rule::kEma, 0.05, 4);
  config.granularity = 64;
  config.redraw = Redraw::kEveryCycle;
  config.rounding = kernels::Rounding::kStochastic;
  for (const kernels::Encoding encoding :
       {kernels::Encoding::kFloat32, kernels::Encoding::kInt8, kernels::Encoding::kInt4}) {
    config.encoding = encoding;
    for (const Selection selection : {Selection::kRotation, Selection::kRandom}) {
      config.selection = selection;
      expect_no_allocation(config, {5000, 77, 300}, {.payload_bytes = 1088});
    }
  }
}

TEST(Opportunistic, NorWithThreads) {
  AveragerConfig config = opportunistic(Rule::kEma, 0.5, 4);
  config.granularity = 64;
  config.encoding = kernels::Encoding::kInt8;
  const std::unique_ptr<kernels::Workers> workers = kernels::make_thread_team(3);
  expect_no_allocation(config, {300'000}, {.workers = workers.get()});
}

}  // namespace
}  // namespace asyncmesh::test
