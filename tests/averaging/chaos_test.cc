// Everything at once, seeded: uneven calls, late deliveries, link resets, members that finish early
// or die, means in between. Whatever happens, nobody hangs and the survivors end with one model.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "averaging/replicas.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

struct Chaos {
  explicit Chaos(uint64_t seed) : random(seed) {
    config.fraction = 0.1 + 0.9 * random.uniform();
    config.granularity = static_cast<uint32_t>(1 + random.below(8));
    config.window = static_cast<uint32_t>(1 + random.below(6));
    config.rule = static_cast<kernels::Rule>(random.below(3));
    config.encoding = static_cast<kernels::Encoding>(random.below(3));
    config.momentum_first = config.momentum_last = 0.9;
    if (config.rule == kernels::Rule::kDelta) config.window = 1;
    if (random.below(3) == 0) config.selection = Selection::kRandom;
    size = static_cast<uint32_t>(2 + random.below(4));
    replicas = std::make_unique<Replicas>(size, config, std::vector<uint64_t>{37, 5, 64},
                                          Replicas::Options{.payload_bytes = 32});
    for (uint32_t r = 0; r < size; ++r) alive.push_back(r);
  }

  uint32_t any() { return alive[random.below(alive.size())]; }

  // One thing that may happen; false: a call failed in a way that it must not.
  void disturb() {
    const uint32_t r = any();
    switch (random.below(12)) {
      case 0:
        replicas->reset_links(r, any());
        return;
      case 1:
      case 2:
      case 3:
        replicas->pump();
        return;
      default:
        step(r);
    }
  }

  void step(uint32_t r) {
    Averager& averager = replicas->averager(r);
    if (finishing.count(r) != 0) {
      const Code code = averager.finish({.deadline = replicas->clock().now()}).code();
      EXPECT_TRUE(code == Code::kTimeout || code == Code::kOk || code == Code::kPeerLost);
      return;
    }
    replicas->add(r, [&](uint64_t) { return static_cast<float>(random.uniform() - 0.5); });
    const float weight = random.below(5) == 0 ? 0.0F : 1.0F;
    const Code code = averager.call({.weight = weight}, nullptr).code();
    EXPECT_TRUE(code == Code::kOk || code == Code::kPeerLost);
  }

  void end() {
    // A loss is reported once, so a finish may have to be repeated.
    for (int attempt = 0; attempt < 4; ++attempt) {
      const std::vector<Status> statuses =
          replicas->run_all(alive, [&](uint32_t r) { return replicas->averager(r).finish({}); });
      if (std::all_of(alive.begin(), alive.end(), [&](uint32_t r) { return statuses[r].ok(); })) {
        break;
      }
    }
    for (const uint32_t r : alive) {
      EXPECT_TRUE(replicas->averager(r).finished());
      EXPECT_EQ(replicas->weights(r), replicas->weights(alive[0]));
      applied += replicas->averager(r).stats().rounds_applied;
    }
    expect_no_slot_lent();
  }

  // Every frame that was taken has been released: no slot is lost to the averagers.
  void expect_no_slot_lent() {
    replicas->pump();
    for (const uint32_t r : alive) {
      for (Port* port : {&replicas->rounds(r).port(), &replicas->means(r).port()}) {
        for (uint32_t lane = 0; lane + 1 < size; ++lane) {
          if (port->outbound_state(lane) == LaneState::kDead) continue;
          EXPECT_EQ(port->unreleased(lane), 0U) << "replica " << r << " lane " << lane;
        }
      }
    }
  }

  CounterRandom random;
  AveragerConfig config;
  uint32_t size = 0;
  std::unique_ptr<Replicas> replicas;
  std::vector<uint32_t> alive;
  std::set<uint32_t> finishing;
  uint64_t applied = 0;  // rounds, by those who were there at the end
};

TEST(Chaos, ResetsAndEarlyFinishersEndWithOneModel) {
  uint64_t applied = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed);
    for (int i = 0; i < 300; ++i) {
      chaos.disturb();
      if (i > 150 && chaos.random.below(60) == 0) chaos.finishing.insert(chaos.any());
    }
    chaos.end();
    applied += chaos.applied;
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(applied, 150U * 30);
}

TEST(Chaos, SurvivorsOfALossEndWithOneModel) {
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed);
    const auto when = static_cast<int>(chaos.random.below(250));
    for (int i = 0; i < 250; ++i) {
      chaos.disturb();
      if (i != when) continue;
      const uint32_t victim = chaos.any();
      chaos.replicas->kill(victim);
      chaos.alive.erase(std::find(chaos.alive.begin(), chaos.alive.end(), victim));
    }
    chaos.end();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace asyncmesh::test
