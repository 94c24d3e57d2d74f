#include "pipeline/stage_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "base/random.h"

namespace asyncmesh {
namespace {

constexpr StageReady kAllReady{.forward = true, .backward = true};

StageSchedule make(const StageConfig& config) {
  Result<StageSchedule> schedule = StageSchedule::create(config);
  EXPECT_TRUE(schedule.ok()) << schedule.status().text();
  return schedule.value();
}

StageConfig deterministic(uint32_t stages, uint32_t stage) {
  return {.stages = stages, .stage = stage, .mode = StageMode::kDeterministic};
}

// O-15.
TEST(StageSchedule, ForwardAndBackwardRunOnTheVersionOf1F1B) {
  for (uint32_t stages = 1; stages <= 8; ++stages) {
    for (uint32_t stage = 0; stage < stages; ++stage) {
      StageSchedule schedule = make(deterministic(stages, stage));
      const uint64_t warm_up = stages - 1 - stage;
      for (int i = 0; i < 300; ++i) {
        const StageAction action = schedule.next(kAllReady);
        if (action.step == StageStep::kUpdate) {
          EXPECT_EQ(action.delay, std::min<uint64_t>(warm_up, action.version - 1));
          continue;
        }
        const uint64_t k = action.micro_batch;
        EXPECT_EQ(action.version, k > warm_up ? k - warm_up : 0) << "stage " << stage;
      }
      EXPECT_EQ(schedule.ring(), stages - stage);
      EXPECT_EQ(schedule.delays().largest, warm_up);
      EXPECT_EQ(schedule.delay(), warm_up);
    }
  }
}

TEST(StageSchedule, OrderIs1F1B) {
  StageSchedule schedule = make(deterministic(3, 0));
  std::string order;
  for (int i = 0; i < 12; ++i) order += "WFBUD"[static_cast<int>(schedule.next(kAllReady).step)];
  EXPECT_EQ(order, "FFFBUFBUFBUF");
}

TEST(StageSchedule, NominalDelaysAreThoseOfTheTable) {
  const std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> table = {
      {{4, 1}, {3, 2, 1, 0}},
      {{8, 1}, {7, 6, 5, 4, 3, 2, 1, 0}},
      {{4, 2}, {1, 1, 0, 0}},
      {{8, 2}, {3, 3, 2, 2, 1, 1, 0, 0}},
      {{8, 4}, {1, 1, 1, 1, 0, 0, 0, 0}},
  };
  for (const auto& [key, delays] : table) {
    const auto [stages, updates] = key;
    for (uint32_t stage = 0; stage < stages; ++stage) {
      StageConfig config = deterministic(stages, stage);
      config.micro_batches_per_update = updates;
      EXPECT_EQ(make(config).delay(), delays[stage]) << stages << " " << updates << " " << stage;
    }
  }
}

TEST(StageSchedule, MeasuredDelayAveragesInFlightOverAccumulation) {
  StageConfig config = deterministic(8, 0);
  config.micro_batches_per_update = 2;
  StageSchedule schedule = make(config);
  while (schedule.delays().updates < 1000) schedule.next(kAllReady);
  const StageDelays& delays = schedule.delays();
  EXPECT_EQ(delays.largest, 4U);  // ceil(7 / 2)
  EXPECT_NEAR(static_cast<double>(delays.sum) / static_cast<double>(delays.gradients), 3.5, 0.02);
}

TEST(StageSchedule, WaitsForWhatItsOrderAsksFor) {
  StageSchedule schedule = make(deterministic(2, 0));
  StageAction action = schedule.next({.forward = false, .backward = true});
  EXPECT_EQ(action.step, StageStep::kWait);
  EXPECT_TRUE(action.wants_forward);
  EXPECT_FALSE(action.wants_backward);
  schedule.next(kAllReady);
  schedule.next(kAllReady);
  action = schedule.next({.forward = true, .backward = false});
  EXPECT_EQ(action.step, StageStep::kWait);
  EXPECT_TRUE(action.wants_backward);
  EXPECT_FALSE(action.wants_forward);
}

TEST(StageSchedule, OpportunisticPrefersABackward) {
  StageSchedule schedule = make({.stages = 4, .stage = 0});
  EXPECT_EQ(schedule.next(kAllReady).step, StageStep::kForward);  // nothing to go back on
  EXPECT_EQ(schedule.next(kAllReady).step, StageStep::kBackward);
  EXPECT_EQ(schedule.next(kAllReady).step, StageStep::kUpdate);
}

TEST(StageSchedule, OpportunisticFillsUpToItsBoundWhileGradientsAreLate) {
  StageSchedule schedule = make({.stages = 4, .stage = 0, .in_flight = 6});
  const StageReady late{.forward = true, .backward = false};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(schedule.next(late).step, StageStep::kForward);
  const StageAction action = schedule.next(late);
  EXPECT_EQ(action.step, StageStep::kWait);
  EXPECT_TRUE(action.wants_backward);
  EXPECT_FALSE(action.wants_forward);
  EXPECT_EQ(schedule.in_flight(), 6U);
}

TEST(StageSchedule, SynchronousNeverForwardsBeforeTheUpdate) {
  StageSchedule schedule = make(
      {.stages = 2, .stage = 0, .micro_batches_per_update = 4, .mode = StageMode::kSynchronous});
  std::string order;
  for (int i = 0; i < 18; ++i) {
    const StageAction action = schedule.next(kAllReady);
    order += "WFBUD"[static_cast<int>(action.step)];
    EXPECT_EQ(action.delay, 0U);
    EXPECT_EQ(action.slot, 0U);
  }
  EXPECT_EQ(order, "FFBFBFBBUFFBFBFBBU");
  EXPECT_EQ(schedule.ring(), 1U);
  EXPECT_EQ(schedule.delays().largest, 0U);
}

TEST(StageSchedule, SynchronousWithRoomForAllIsFillAndDrain) {
  StageSchedule schedule = make({.stages = 2,
                                 .stage = 0,
                                 .in_flight = 4,
                                 .micro_batches_per_update = 4,
                                 .mode = StageMode::kSynchronous});
  std::string order;
  for (int i = 0; i < 9; ++i) order += "WFBUD"[static_cast<int>(schedule.next(kAllReady).step)];
  EXPECT_EQ(order, "FFFFBBBBU");
}

TEST(StageSchedule, ATotalDrainsAndUpdatesWithWhatIsLeft) {
  for (const StageMode mode :
       {StageMode::kDeterministic, StageMode::kOpportunistic, StageMode::kSynchronous}) {
    StageSchedule schedule =
        make({.stages = 3, .stage = 0, .micro_batches_per_update = 4, .mode = mode, .total = 10});
    uint32_t forwards = 0;
    uint32_t backwards = 0;
    std::vector<uint32_t> updates;
    for (StageAction action = schedule.next(kAllReady); action.step != StageStep::kDone;
         action = schedule.next(kAllReady)) {
      ASSERT_NE(action.step, StageStep::kWait);
      forwards += action.step == StageStep::kForward ? 1 : 0;
      backwards += action.step == StageStep::kBackward ? 1 : 0;
      if (action.step == StageStep::kUpdate) updates.push_back(action.gradients);
    }
    EXPECT_EQ(forwards, 10U);
    EXPECT_EQ(backwards, 10U);
    EXPECT_EQ(updates, (std::vector<uint32_t>{4, 4, 2}));
  }
}

TEST(StageSchedule, GoesOnAfterADrainWithALargerTotal) {
  StageConfig config = deterministic(3, 0);
  config.total = 5;
  StageSchedule schedule = make(config);
  while (schedule.next(kAllReady).step != StageStep::kDone) {
  }
  EXPECT_EQ(schedule.version(), 5U);
  EXPECT_FALSE(schedule.set_total(4).ok());
  ASSERT_TRUE(schedule.set_total(8).ok());
  const StageAction action = schedule.next(kAllReady);
  EXPECT_EQ(action.step, StageStep::kForward);
  EXPECT_EQ(action.version, 5U);
}

TEST(StageSchedule, IsBetweenVersionsFromTheUpdateToTheNextForward) {
  StageSchedule schedule = make(deterministic(1, 0));
  EXPECT_TRUE(schedule.between_versions());
  schedule.next(kAllReady);
  EXPECT_FALSE(schedule.between_versions());
  schedule.next(kAllReady);
  EXPECT_FALSE(schedule.between_versions());
  EXPECT_EQ(schedule.next(kAllReady).step, StageStep::kUpdate);
  EXPECT_TRUE(schedule.between_versions());
}

TEST(StageSchedule, RefusesWhatCannotRun) {
  const auto refused = [](const StageConfig& config) {
    return StageSchedule::create(config).code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused({.stages = 2, .stage = 2}));
  EXPECT_TRUE(refused({.stages = 0}));
  EXPECT_TRUE(refused({.stages = 4, .stage = 0, .in_flight = 3}));
  EXPECT_TRUE(refused({.micro_batches_per_update = 0}));
  EXPECT_FALSE(refused({.stages = 4, .stage = 0, .in_flight = 4}));
  EXPECT_FALSE(
      refused({.stages = 8, .micro_batches_per_update = 2, .mode = StageMode::kSynchronous}));
}

// A slot is free before its next version is written: no micro-batch in flight still needs it.
TEST(StageSchedule, NeverOverwritesAVersionThatIsNeeded) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CounterRandom random(seed);
    StageConfig config;
    config.stages = static_cast<uint32_t>(1 + random.below(6));
    config.stage = static_cast<uint32_t>(random.below(config.stages));
    config.in_flight = config.stages - config.stage + static_cast<uint32_t>(random.below(5));
    config.micro_batches_per_update = static_cast<uint32_t>(1 + random.below(4));
    config.mode = static_cast<StageMode>(random.below(3));
    StageSchedule schedule = make(config);
    std::vector<uint64_t> held(schedule.ring(), 0);  // version in each slot
    std::deque<StageAction> flying;
    for (int i = 0; i < 400; ++i) {
      const StageAction action =
          schedule.next({.forward = random.below(2) == 0, .backward = random.below(2) == 0});
      ASSERT_LE(schedule.in_flight(), config.in_flight);
      if (action.step == StageStep::kForward) flying.push_back(action);
      if (action.step == StageStep::kBackward) {
        ASSERT_EQ(action.micro_batch, flying.front().micro_batch);
        ASSERT_EQ(action.version, flying.front().version);
        flying.pop_front();
      }
      if (action.step == StageStep::kUpdate) held[action.slot] = action.version;
      if (action.step == StageStep::kWait) continue;
      ASSERT_EQ(held[action.slot], action.version) << "seed " << seed;
    }
  }
}

// P stages joined by queues, scheduled at random: everything flows to the end in every mode.
TEST(StageSchedule, PipelinesOfAllModesRunToTheEnd) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CounterRandom random(seed);
    const auto stages = static_cast<uint32_t>(1 + random.below(5));
    const auto mode = static_cast<StageMode>(random.below(3));
    std::vector<StageSchedule> pipeline;
    for (uint32_t s = 0; s < stages; ++s) {
      pipeline.push_back(make({.stages = stages,
                               .stage = s,
                               .micro_batches_per_update = 1 + static_cast<uint32_t>(seed % 3),
                               .mode = mode,
                               .total = 40}));
    }
    std::vector<uint32_t> activations(stages, 0);
    std::vector<uint32_t> gradients(stages, 0);
    uint32_t done = 0;
    for (int lap = 0; lap < 100000 && done < stages; ++lap) {
      const auto s = static_cast<uint32_t>(random.below(stages));
      const bool last = s + 1 == stages;
      const StageAction action = pipeline[s].next(
          {.forward = s == 0 || activations[s] > 0, .backward = last || gradients[s] > 0});
      if (action.step == StageStep::kForward) {
        if (s > 0) --activations[s];
        if (!last) ++activations[s + 1];
      } else if (action.step == StageStep::kBackward) {
        if (!last) --gradients[s];
        if (s > 0) ++gradients[s - 1];
      }
      done = static_cast<uint32_t>(
          std::count_if(pipeline.begin(), pipeline.end(),
                        [](const StageSchedule& stage) { return stage.delays().gradients == 40; }));
    }
    EXPECT_EQ(done, stages) << "seed " << seed;
  }
}

}  // namespace
}  // namespace asyncmesh
