#include "transport/paced/paced.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "support/alloc_guard.h"
#include "tests/conformance/seam_pair.h"
#include "transport/loopback/loopback.h"
#include "transport/paced/egress.h"

namespace asyncmesh::conformance {
namespace {

using transport::PacedConfig;
using transport::PacedTransport;
using transport::TokenBucket;

constexpr LaneGeometry kLane{8, 4088};

// Two paced ends on a fake clock that the test moves itself.
class PacedTest : public testing::Test {
 protected:
  void open(const PacedConfig& config) {
    for (uint32_t side = 0; side < 2; ++side) {
      ends_[side] = make_paced(transport::make_loopback(), config, clock_);
    }
    for (uint32_t side = 0; side < 2; ++side) {
      auto link = ends_[side]->open_link(1 - side, 1, ends_[1 - side]->address(), downs_);
      ASSERT_TRUE(link.ok());
      links_[side] = std::move(link.value());
    }
  }
  std::unique_ptr<SeamLane> open_lane(uint32_t writer_side, LaneId id,
                                      const LaneGeometry& geometry = kLane) {
    auto lane = std::make_unique<SeamLane>(id, geometry, 1);
    EXPECT_TRUE(lane->writer.attach(*ends_[writer_side]).ok());
    stagings_.push_back(lane->writer.share_staging());
    auto inbound = links_[1 - writer_side]->open_inbound(id, geometry, 1, lane->reader);
    EXPECT_TRUE(inbound.ok());
    lane->reader.open(std::move(inbound.value()));
    auto outbound = links_[writer_side]->open_outbound(id, geometry, lane->reader.inbound().offer(),
                                                       lane->writer);
    EXPECT_TRUE(outbound.ok());
    lane->writer.open(std::move(outbound.value()));
    return lane;
  }
  void progress() {
    while (ends_[0]->progress() + ends_[1]->progress() > 0) {
    }
  }
  void advance(Nanoseconds step) {
    clock_.advance(step);
    progress();
  }

  FakeClock clock_;
  std::vector<std::shared_ptr<const void>> stagings_;
  std::unique_ptr<PacedTransport> ends_[2];
  LinkRecorder downs_;
  std::unique_ptr<Link> links_[2];
};

TEST(TokenBucket, KeepsItsRateWhateverTheSizeOfThePieces) {
  for (const uint32_t bytes : {1u, 32u, 80u, 1500u, 65536u, 1u << 20}) {
    TokenBucket bucket(123'456'789, 0);
    const uint64_t pieces = std::min<uint64_t>(200'000'000 / bytes + 1, 100'000);
    Nanoseconds last = 0;
    for (uint64_t i = 0; i < pieces; ++i) last = bucket.take(1000, bytes);
    const double expected = static_cast<double>(pieces) * bytes / 123'456'789.0 * 1e9;
    EXPECT_NEAR(static_cast<double>(last - 1000), expected, 1e-6 * expected + 1) << bytes;
  }
}

TEST(TokenBucket, LateCallsCostNoRateWhileBusy) {
  TokenBucket bucket(1'000'000'000, 0);  // 1 byte per ns
  EXPECT_EQ(bucket.take(0, 1000), 1000);
  EXPECT_EQ(bucket.take(900, 1000), 2000);
  EXPECT_EQ(bucket.take(1999, 1000), 3000);
}

TEST(TokenBucket, IdlingEarnsOneBurstAndNoMore) {
  TokenBucket bucket(1'000'000'000, 500);
  EXPECT_EQ(bucket.take(1'000'000, 500), 1'000'000);
  EXPECT_EQ(bucket.take(1'000'000, 500), 1'000'500);
  EXPECT_EQ(bucket.take(9'000'000, 400), 9'000'000);
  EXPECT_EQ(bucket.take(9'000'000, 200), 9'000'100);
}

TEST(TokenBucket, NoRateMeansNoWait) {
  TokenBucket bucket(0, 0);
  EXPECT_EQ(bucket.take(77, 1u << 30), 77);
}

TEST_F(PacedTest, AFrameTakesItsSerialisationTimeAndTheLatency) {
  open({.bytes_per_second = 1'000'000, .latency = 5 * kMillisecond, .burst_bytes = 0});
  auto lane = open_lane(0, 1);
  ASSERT_EQ(lane->writer.send(1000), Code::kOk);  // 1 ms on the wire
  progress();
  EXPECT_EQ(ends_[0]->next_deadline(), clock_.now() + 6 * kMillisecond);
  advance(6 * kMillisecond - 1);
  EXPECT_EQ(lane->reader.received(), 0u);
  EXPECT_EQ(lane->writer.sent(), 0u);
  advance(1);
  EXPECT_EQ(lane->reader.received(), 1u);
  EXPECT_EQ(lane->writer.sent(), 1u);
  EXPECT_EQ(ends_[0]->next_deadline(), kNever);
}

TEST_F(PacedTest, LatencyIsPaidOnceByFramesBackToBack) {
  open({.bytes_per_second = 0, .latency = 5 * kMillisecond, .burst_bytes = 0});
  auto lane = open_lane(0, 1);
  lane->writer.send_up_to(8);
  advance(5 * kMillisecond);
  EXPECT_EQ(lane->reader.received(), 8u);
}

TEST_F(PacedTest, AllLanesAndLinksShareOneBucket) {
  open({.bytes_per_second = 1'000'000, .latency = 0, .burst_bytes = 0});
  auto first = open_lane(0, 1);
  auto second = open_lane(0, 2);
  ASSERT_EQ(first->writer.send(1000), Code::kOk);
  ASSERT_EQ(second->writer.send(1000), Code::kOk);
  advance(kMillisecond);
  EXPECT_EQ(first->reader.received(), 1u);
  EXPECT_EQ(second->reader.received(), 0u);
  advance(kMillisecond);
  EXPECT_EQ(second->reader.received(), 1u);
}

TEST_F(PacedTest, TheOtherDirectionHasItsOwnBucket) {
  open({.bytes_per_second = 1'000'000, .latency = 0, .burst_bytes = 0});
  auto there = open_lane(0, 1);
  auto back = open_lane(1, 1);
  ASSERT_EQ(there->writer.send(1000), Code::kOk);
  ASSERT_EQ(back->writer.send(1000), Code::kOk);
  advance(kMillisecond);
  EXPECT_EQ(there->reader.received(), 1u);
  EXPECT_EQ(back->reader.received(), 1u);
}

TEST_F(PacedTest, ThroughputIsExactToOnePercent) {
  constexpr uint64_t kRate = 25'000'000;  // 200 Mbit/s
  open({.bytes_per_second = kRate, .latency = 100 * kMicrosecond, .burst_bytes = 16 * 1024});
  auto lane = open_lane(0, 1, {32, 64 * 1024 - 8});
  const Nanoseconds start = clock_.now();
  // Progress comes at odd moments, as from a busy owner.
  for (uint32_t round = 0; clock_.now() - start < 2 * kSecond; ++round) {
    while (lane->writer.can_send()) ASSERT_EQ(lane->writer.send(64 * 1024 - 8), Code::kOk);
    advance(37 * kMicrosecond + round % 7 * 91 * kMicrosecond);
    lane->reader.discard();
  }
  const double seconds = static_cast<double>(clock_.now() - start) / 1e9;
  const double rate = static_cast<double>(lane->reader.received()) * (64 * 1024 - 8) / seconds;
  EXPECT_NEAR(rate, static_cast<double>(kRate), 0.01 * kRate);
}

TEST_F(PacedTest, CreditsWaitForTheLatencyAndSeveralAreOnTheirWay) {
  open({.bytes_per_second = 0, .latency = 5 * kMillisecond, .burst_bytes = 0});
  auto lane = open_lane(0, 1);
  lane->writer.send_up_to(2);
  advance(5 * kMillisecond);
  EXPECT_EQ(lane->reader.inbound().send_credit({1, 1, 1}), Code::kOk);
  advance(kMillisecond);
  EXPECT_EQ(lane->reader.inbound().send_credit({2, 2, 2}), Code::kOk);
  advance(4 * kMillisecond);
  EXPECT_EQ(lane->writer.credit().released, 1u);
  advance(kMillisecond);
  EXPECT_EQ(lane->writer.credit().released, 2u);
}

TEST_F(PacedTest, TooManyCreditsOnTheirWayAreRefused) {
  open({.bytes_per_second = 0, .latency = kSecond, .burst_bytes = 0});
  auto lane = open_lane(0, 1);
  uint32_t accepted = 0;
  while (accepted < 100 && lane->reader.inbound().send_credit({0, 0, 0}) == Code::kOk) ++accepted;
  EXPECT_EQ(accepted, kLane.slots);
  advance(kSecond);
  EXPECT_EQ(lane->reader.inbound().send_credit({0, 0, 0}), Code::kOk);
}

TEST_F(PacedTest, AClosedLaneTakesItsFramesAlong) {
  open({.bytes_per_second = 1'000'000, .latency = 0, .burst_bytes = 0});
  auto closed = open_lane(0, 1);
  auto kept = open_lane(0, 2);
  ASSERT_EQ(closed->writer.send(1000), Code::kOk);
  ASSERT_EQ(kept->writer.send(1000), Code::kOk);
  ASSERT_EQ(closed->writer.send(1000), Code::kOk);
  closed->writer.close();
  advance(3 * kMillisecond);
  EXPECT_EQ(closed->reader.received(), 0u);
  EXPECT_EQ(kept->reader.received(), 1u);
  EXPECT_EQ(ends_[0]->next_deadline(), kNever);
}

TEST_F(PacedTest, CountsWhatLeft) {
  open({.bytes_per_second = 0, .latency = kMillisecond, .burst_bytes = 0});
  auto lane = open_lane(0, 1);
  ASSERT_EQ(lane->writer.send(1000), Code::kOk);
  EXPECT_EQ(ends_[0]->counters().bytes, 0u);
  advance(kMillisecond);
  lane->reader.discard();
  advance(kMillisecond);
  EXPECT_EQ(ends_[0]->counters().frames, 1u);
  EXPECT_EQ(ends_[0]->counters().bytes, 1000u);
  EXPECT_EQ(ends_[1]->counters().credits, 1u);
  EXPECT_GT(ends_[1]->counters().bytes, 0u);
}

TEST_F(PacedTest, ArmsOnlyWhenNothingIsDue) {
  open({.bytes_per_second = 0, .latency = kMillisecond, .burst_bytes = 0});
  auto lane = open_lane(0, 1);
  lane->writer.send_up_to(1);
  EXPECT_TRUE(ends_[0]->arm());
  clock_.advance(kMillisecond);
  EXPECT_FALSE(ends_[0]->arm());
}

TEST_F(PacedTest, NothingIsAllocatedPerFrame) {
  open({.bytes_per_second = 100'000'000, .latency = 100 * kMicrosecond, .burst_bytes = 0});
  auto lane = open_lane(0, 1);
  const auto exchange = [&](Sequence last) {
    while (lane->writer.credit().released < last) {
      lane->writer.send_up_to(last);
      advance(20 * kMicrosecond);
      lane->reader.take(0);
    }
  };
  exchange(100);
  const test::AllocGuard guard;
  exchange(1100);
  EXPECT_EQ(guard.in_thread(), 0u);
}

TEST_F(PacedTest, NamesWhatItEmulates) {
  open({.bytes_per_second = 25'000'000, .latency = 5 * kMillisecond, .burst_bytes = 0});
  EXPECT_EQ(ends_[0]->name(), "paced:loopback");
  EXPECT_EQ(links_[0]->describe(), "paced(200Mbit,5ms) loopback");
}

}  // namespace
}  // namespace asyncmesh::conformance
