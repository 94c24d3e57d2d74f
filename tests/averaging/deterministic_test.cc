// Deterministic mode: waiting, time-outs, repeatability.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "averaging/replicas.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;

TEST(Deterministic, TimesOutAtItsDeadlineAndResumes) {
  Replicas replicas(2, oracle_config(Rule::kAverage, 1.0, 0), {1});
  replicas.weights(0) = {2.0F};
  replicas.weights(1) = {4.0F};
  CallResult result;
  const Nanoseconds deadline = replicas.clock().now() + 1000;
  const Status status = replicas.averager(0).call({.deadline = deadline}, &result);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(replicas.clock().now(), deadline);
  EXPECT_EQ(replicas.weights(0)[0], 2.0F);
  CallResult other;
  ASSERT_TRUE(replicas.averager(1).call({}, &other).ok());
  replicas.pump();
  ASSERT_TRUE(replicas.averager(0).call({}, &result).ok());
  EXPECT_EQ(replicas.weights(0)[0], 3.0F);
  EXPECT_EQ(result.started, 1U);  // posted once, though called twice
  EXPECT_EQ(result.applied, 1U);
  EXPECT_EQ(result.wait_ns, 1000);
  EXPECT_EQ(replicas.averager(0).stats().calls, 1U);
}

TEST(Deterministic, AppliesExactlyWindowCallsAfterTheStart) {
  Replicas replicas(2, oracle_config(Rule::kEma, 0.25, 3), {8});
  for (int call = 0; call < 12; ++call) {
    replicas.call(0, {});
    replicas.pump();
    const CallResult result = replicas.call(1, {});
    replicas.pump();
    ASSERT_EQ(result.applied, call >= 3 ? 1U : 0U);
    if (call < 3) continue;
    EXPECT_EQ(result.age_calls, 3U);
    EXPECT_EQ(result.age_rounds, 3U);
  }
}

TEST(Deterministic, IsBitwiseRepeatable) {
  const auto run = [](uint64_t order) {
    AveragerConfig config = oracle_config(Rule::kEma, 0.1, 4);
    config.redraw = Redraw::kEveryCycle;
    Replicas replicas(3, config, {100, 31});
    randomise(replicas, 1);
    CounterRandom steps(2);
    for (int call = 0; call < 50; ++call) {
      for (uint32_t r = 0; r < 3; ++r) {
        replicas.add(r, [&](uint64_t) { return static_cast<float>(steps.uniform()); });
      }
      std::vector<uint32_t> who{0, 1, 2};
      std::rotate(who.begin(), who.begin() + static_cast<int>(order), who.end());
      expect_all(
          replicas.run_all(who, [&](uint32_t r) { return replicas.averager(r).call({}, nullptr); }),
          Code::kOk);
    }
    return replicas.weights(2);
  };
  EXPECT_EQ(run(0), run(1));
  EXPECT_EQ(run(0), run(2));
}

TEST(Deterministic, IdenticalReplicasStayBitwiseEqualToOne) {
  for (const Rule rule : {Rule::kAverage, Rule::kDelta, Rule::kEma}) {
    Replicas replicas(2, oracle_config(rule, 0.05, 0), {64});
    Replicas alone(1, oracle_config(rule, 0.05, 0), {64});
    CounterRandom random(4);
    for (int call = 0; call < 100; ++call) {
      std::vector<float> step(64);
      for (float& s : step) s = static_cast<float>(random.uniform() - 0.5);
      for (uint32_t r = 0; r < 2; ++r) replicas.add(r, [&](uint64_t i) { return step[i]; });
      alone.add(0, [&](uint64_t i) { return step[i]; });
      replicas.call_all({});
      alone.call_all({});
    }
    EXPECT_EQ(replicas.weights(0), alone.weights(0));
    EXPECT_EQ(replicas.weights(1), alone.weights(0));
  }
}

// With a delay o + (w - o) rounds: equal to 1e-6 in norm.
TEST(Deterministic, IdenticalReplicasWithDelayDriftOnlyByRounding) {
  Replicas replicas(2, oracle_config(Rule::kDelta, 0.05, 3), {256});
  std::vector<float> alone(256, 0.0F);
  CounterRandom random(5);
  for (int call = 0; call < 300; ++call) {
    std::vector<float> step(256);
    for (float& s : step) s = static_cast<float>(random.uniform() - 0.3);
    for (uint32_t r = 0; r < 2; ++r) replicas.add(r, [&](uint64_t i) { return step[i]; });
    for (size_t i = 0; i < 256; ++i) alone[i] += step[i];
    replicas.call_all({});
  }
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < 256; ++i) {
    difference += std::pow(double{alone[i]} - double{replicas.weights(0)[i]}, 2);
    norm += std::pow(double{alone[i]}, 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-6);
}

TEST(Deterministic, ALostMemberEndsIt) {
  Replicas replicas(3, oracle_config(Rule::kEma, 0.5, 1), {4});
  replicas.call_all({});
  replicas.kill(2);
  const Status status = replicas.averager(0).call({}, nullptr);
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_EQ(replicas.averager(0).lost_rank(), 2U);
  EXPECT_NE(status.text().find("rank 2"), std::string::npos);
  EXPECT_EQ(replicas.averager(0).call({}, nullptr).code(), Code::kPeerLost);
}

TEST(Deterministic, ManyPiecesPerRoundStayWhole) {
  Replicas replicas(2, oracle_config(Rule::kAverage, 0.5, 2), {1001}, {.payload_bytes = 64});
  randomise(replicas, 6);
  std::vector<float> mean(1001);
  for (size_t i = 0; i < 1001; ++i) mean[i] = (replicas.weights(0)[i] + replicas.weights(1)[i]) / 2;
  for (int call = 0; call < 4; ++call) replicas.call_all({});
  EXPECT_EQ(replicas.weights(0), mean);
  EXPECT_EQ(replicas.weights(1), mean);
}

}  // namespace
}  // namespace asyncmesh::test
