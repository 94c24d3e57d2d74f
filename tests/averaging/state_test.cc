// Creation, moved tensors, saved state.
#include <gtest/gtest.h>

#include <cmath>

#include "averaging/replicas.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;
using kernels::TensorView;

AveragerConfig opportunistic(double fraction, uint32_t window) {
  AveragerConfig config = oracle_config(Rule::kEma, fraction, window);
  config.mode = AveragingMode::kOpportunistic;
  return config;
}

TEST(Creation, RefusesSettingsOutOfRange) {
  const auto code = [](auto change) {
    AveragerConfig config = opportunistic(0.05, 10);
    change(config);
    return Replicas(2, config, {1000}, {.payload_bytes = 0, .quiet = true}).status().code();
  };
  EXPECT_EQ(code([](AveragerConfig&) {}), Code::kOk);
  EXPECT_EQ(code([](AveragerConfig& c) { c.fraction = 0.0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.fraction = std::nan(""); }), Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.granularity = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.window = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.scale = -1.0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.momentum_first = 1.5; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.momentum_last = std::nan(""); }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.warm_up = 2.0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.fraction = 0.4; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](AveragerConfig& c) { c.granularity = 1000; }), Code::kInvalidArgument);
}

TEST(Creation, RefusesTensorsThatOverlap) {
  Replicas replicas(1, opportunistic(0.5, 1), {4});
  std::vector<float>& w = replicas.weights(0);
  const Tensors tied{{{.data = w.data(), .count = 3}, {.data = w.data() + 2, .count = 2}}};
  EXPECT_EQ(replicas.averager(0).rebind(tied).code(), Code::kInvalidArgument);
}

TEST(Creation, ACallRefusesABadWeightAndChangesNothing) {
  Replicas replicas(2, opportunistic(0.5, 1), {4});
  Averager& averager = replicas.averager(0);
  EXPECT_EQ(averager.call({.weight = -1.0F}, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(averager.call({.weight = std::nanf("")}, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(averager.next_round(), 0U);
}

TEST(Creation, FollowsTensorsThatMoved) {
  Replicas replicas(2, opportunistic(1.0, 1), {2});
  std::vector<float> moved{10.0F, 10.0F};
  ASSERT_TRUE(replicas.averager(0).rebind(replicas.table(moved)).ok());
  replicas.weights(1) = {20.0F, 20.0F};
  replicas.call(0, {});
  replicas.call(1, {});
  replicas.pump();
  replicas.call(0, {});
  EXPECT_EQ(moved, (std::vector<float>{15.0F, 15.0F}));
  EXPECT_EQ(replicas.weights(0), (std::vector<float>{0.0F, 0.0F}));
}

// Saved where no round is open, a run goes on bitwise as if it had not stopped.
TEST(State, IsExact) {
  const AveragerConfig config = [] {
    AveragerConfig c = oracle_config(Rule::kEma, 0.2, 0);
    c.redraw = Redraw::kEveryCycle;
    c.init = EmaInit::kParity;
    return c;
  }();
  const auto run = [](Replicas& replicas, uint64_t from, uint64_t to) {
    for (uint64_t call = from; call < to; ++call) {
      CounterRandom random(call);
      for (uint32_t r = 0; r < 2; ++r) {
        replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform()); });
      }
      replicas.call_all({.progress = static_cast<double>(call) / 100});
    }
  };
  Replicas whole(2, config, {33});
  run(whole, 0, 40);
  Replicas first(2, config, {33});
  run(first, 0, 17);
  Replicas second(2, config, {33});
  for (uint32_t r = 0; r < 2; ++r) {
    std::vector<std::byte> bytes(first.averager(r).state_bytes());
    ASSERT_TRUE(first.averager(r).save(bytes).ok());
    ASSERT_TRUE(second.averager(r).load(bytes).ok());
    second.weights(r) = first.weights(r);
    EXPECT_EQ(second.averager(r).next_round(), 17U);
  }
  run(second, 17, 40);
  for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(second.weights(r), whole.weights(r));
}

// The same with a delay: both go on from the state, one in the averagers that ran before.
TEST(State, ReloadingDropsOpenRoundsTheSameWayEverywhere) {
  const AveragerConfig config = oracle_config(Rule::kEma, 0.2, 3);
  const auto run = [](Replicas& replicas, uint64_t from, uint64_t to) {
    for (uint64_t call = from; call < to; ++call) {
      CounterRandom random(call);
      for (uint32_t r = 0; r < 2; ++r) {
        replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform()); });
      }
      replicas.call_all({});
    }
  };
  Replicas first(2, config, {33});
  run(first, 0, 17);
  Replicas second(2, config, {33});
  for (uint32_t r = 0; r < 2; ++r) {
    std::vector<std::byte> bytes(first.averager(r).state_bytes());
    ASSERT_TRUE(first.averager(r).save(bytes).ok());
    ASSERT_TRUE(second.averager(r).load(bytes).ok());
    ASSERT_TRUE(first.averager(r).load(bytes).ok());
    second.weights(r) = first.weights(r);
  }
  run(first, 17, 40);
  run(second, 17, 40);
  for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(second.weights(r), first.weights(r));
}

TEST(State, RefusesForeignBytes) {
  Replicas replicas(1, opportunistic(0.5, 1), {8});
  Averager& averager = replicas.averager(0);
  std::vector<std::byte> bytes(averager.state_bytes());
  ASSERT_TRUE(averager.save(bytes).ok());
  EXPECT_EQ(averager.save(std::span(bytes).first(3)).code(), Code::kTooLarge);
  EXPECT_EQ(averager.load(std::span(bytes).first(3)).code(), Code::kMismatch);
  Replicas other(1, opportunistic(0.5, 1), {4, 4});
  EXPECT_EQ(other.averager(0).load(bytes).code(), Code::kMismatch);
  bytes[1] = std::byte{0};
  EXPECT_EQ(averager.load(bytes).code(), Code::kMismatch);
}

}  // namespace
}  // namespace asyncmesh::test
