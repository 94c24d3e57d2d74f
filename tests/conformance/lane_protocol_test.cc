// The lane protocol over each backend: whatever the transport and the faults, every frame arrives
// exactly once and in order.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/conformance/backend.h"
#include "tests/conformance/lane_side.h"
#include "tests/conformance/lane_traffic.h"

namespace asyncmesh::conformance {
namespace {

constexpr uint64_t kFrames = 250;
constexpr Nanoseconds kLimit = 60 * kSecond;

class LaneProtocol : public testing::TestWithParam<Backend> {
 protected:
  void make(bool real_clock) {
    clock_ = std::make_unique<TestClock>(real_clock || GetParam().real_time);
    for (uint32_t side = 0; side < 2; ++side) {
      auto transport = GetParam().make(*clock_, side);
      ASSERT_TRUE(transport.ok()) << transport.status().text();
      LaneSideConfig config;
      config.self = side;
      config.ports.resize(2);
      config.ports[0].slots = 4;
      config.ports[0].payload_bytes = 3000;
      config.ports[1].slots = 16;
      config.ports[1].payload_bytes = 200;
      for (PortConfig& port : config.ports) port.checksum = true;
      sides_[side] = std::make_unique<LaneSide>(config, std::move(transport.value()), *clock_,
                                                control_[side], control_[1 - side]);
      for (uint64_t port = 0; port < 2; ++port) {
        traffic_[side].push_back(std::make_unique<LaneTraffic>(
            sides_[side]->port(port), 10 * port + side, 10 * port + 1 - side, kFrames));
      }
    }
    for (uint32_t side = 0; side < 2; ++side) {
      const auto address = sides_[1 - side]->transport().address();
      sides_[side]->start({address.begin(), address.end()});
    }
  }

  uint32_t step(uint32_t side) {
    uint32_t events = sides_[side]->step();
    for (auto& traffic : traffic_[side]) events += traffic->step();
    return events;
  }
  bool done(uint32_t side) const {
    return std::ranges::all_of(traffic_[side], [](const auto& traffic) { return traffic->done(); });
  }
  // Every frame of this side was released by its reader and its buffer came back.
  bool drained(uint32_t side) const {
    for (size_t port = 0; port < 2; ++port) {
      if (sides_[side]->port(port).unreleased(0) != 0) return false;
    }
    return true;
  }
  bool clean() const {
    for (uint32_t side = 0; side < 2; ++side) {
      if (!sides_[side]->error().empty()) return false;
      for (auto& traffic : traffic_[side]) {
        if (!traffic->error().empty()) return false;
      }
    }
    return true;
  }

  // Both sides by hand, until all is done. `disturb` runs before each round.
  void run(const std::function<void(uint64_t round)>& disturb) {
    const WallDeadline deadline(kLimit);
    for (uint64_t round = 0; !deadline.passed() && clean(); ++round) {
      if (done(0) && done(1) && drained(0) && drained(1)) return;
      disturb(round);
      if (step(0) + step(1) > 0) continue;
      clock_->idle(
          std::min(sides_[0]->transport().next_deadline(), sides_[1]->transport().next_deadline()));
    }
  }

  // Each side on a thread of its own, until all is done. `disturb` runs before each round, on the
  // thread of `side`.
  void run_threads(const std::function<void(uint32_t side, uint64_t round)>& disturb) {
    std::atomic<int> ready{0};
    const auto drive = [&](uint32_t side) {
      const WallDeadline deadline(kLimit);
      bool told = false;
      for (uint64_t round = 0; !deadline.passed() && ready.load() < 2; ++round) {
        disturb(side, round);
        if (step(side) == 0) std::this_thread::yield();
        if (told || !done(side) || !drained(side)) continue;
        told = true;
        ready.fetch_add(1);
      }
    };
    std::thread other(drive, 1);
    drive(0);
    other.join();
  }

  void expect_complete() {
    for (uint32_t side = 0; side < 2; ++side) {
      EXPECT_EQ(sides_[side]->error(), "");
      EXPECT_TRUE(drained(side));
      for (auto& traffic : traffic_[side]) {
        EXPECT_EQ(traffic->error(), "");
        EXPECT_EQ(traffic->sent(), kFrames);
        EXPECT_EQ(traffic->received(), kFrames) << "after " << sides_[side]->resets() << " resets";
      }
      if (auto* faulty = dynamic_cast<transport::FaultyTransport*>(&sides_[side]->transport());
          faulty != nullptr && GetParam().lossy) {
        EXPECT_GT(faulty->counters().total(), 0u);
        EXPECT_GT(sides_[side]->resets(), 0u);
      }
    }
  }

  std::unique_ptr<TestClock> clock_;
  std::array<ControlQueue, 2> control_;
  std::array<std::unique_ptr<LaneSide>, 2> sides_;
  std::array<std::vector<std::unique_ptr<LaneTraffic>>, 2> traffic_;
};

TEST_P(LaneProtocol, EveryFrameArrivesOnceAndInOrder) {
  make(false);
  run([](uint64_t) {});
  expect_complete();
}

TEST_P(LaneProtocol, ResetsAtAnyMomentLoseAndDoubleNothing) {
  make(false);
  CounterRandom random(5);
  uint64_t resets = 0;
  run([&](uint64_t) {
    if (resets == 40 || random.below(8) != 0) return;
    ++resets;
    sides_[random.below(2)]->reset();
  });
  expect_complete();
  EXPECT_GE(sides_[0]->resets(), 20u);
  EXPECT_GT(sides_[0]->replayed() + sides_[1]->replayed(), 0u);
}

TEST_P(LaneProtocol, BothSidesMayResetAtOnce) {
  make(false);
  run([&](uint64_t round) {
    if (round > 150 || round % 10 != 9) return;
    sides_[0]->reset();
    sides_[1]->reset();
  });
  expect_complete();
}

TEST_P(LaneProtocol, TwoOwnersOnTwoThreads) {
  make(true);
  run_threads([](uint32_t, uint64_t) {});
  expect_complete();
}

TEST_P(LaneProtocol, TwoOwnersResetUnderTraffic) {
  make(true);
  std::array<uint32_t, 2> resets{};
  run_threads([&](uint32_t side, uint64_t round) {
    if (resets[side] == 15 || mix(side, round) % 64 != 0) return;
    ++resets[side];
    sides_[side]->reset();
  });
  expect_complete();
}

INSTANTIATE_TEST_SUITE_P(Conformance, LaneProtocol, testing::ValuesIn(backends()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace asyncmesh::conformance
