// What a port does when peers die or links are reset in the middle of its work.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lane/port.h"
#include "support/fake_mesh.h"

namespace asyncmesh {
namespace {

using test::DirectSubmitter;
using test::FakeMesh;
using test::QueuedSubmitter;

constexpr uint32_t kSlots = 4;

uint32_t free_buffers(Port& port) {
  std::vector<Port::Claim> claims(1);
  while (port.claim_buffer(&claims.back()) == Code::kOk) claims.emplace_back();
  claims.pop_back();
  for (const Port::Claim& claim : claims) port.abandon(claim);
  return static_cast<uint32_t>(claims.size());
}

class PortLossTest : public testing::Test {
 protected:
  PortLossTest() {
    mesh_.attach(0, sender_);
    mesh_.attach(1, first_);
    mesh_.attach(2, second_);
    mesh_.connect();
  }
  ~PortLossTest() override {
    EXPECT_EQ(mesh_.violations(), 0U);
    EXPECT_FALSE(queue_.overflowed());
  }

  Code post(uint32_t lane) {
    Port::Claim claim;
    const Code code = sender_.claim(lane, &claim);
    if (code == Code::kOk) sender_.commit(claim, lane, 8, 1);
    return code;
  }
  static uint32_t take_all(Port& port) {
    Received received;
    uint32_t frames = 0;
    for (; port.receive(&received) == Code::kOk; ++frames) port.release(received);
    return frames;
  }

  FakeClock clock_;
  QueuedSubmitter queue_{64};  // the sender's owner runs only when the test drains
  DirectSubmitter direct_;
  Port sender_{{{1, 2}, {}, kSlots, 64}, clock_, queue_};
  Port first_{{{}, {0}, kSlots, 64}, clock_, direct_};
  Port second_{{{}, {0}, kSlots, 64}, clock_, direct_};
  FakeMesh mesh_;
};

TEST_F(PortLossTest, ALaneThatDiesBetweenCommitAndExecuteLeaksNothing) {
  ASSERT_EQ(post(kAllLanes), Code::kOk);
  ASSERT_EQ(post(0), Code::kOk);
  mesh_.kill(1);
  queue_.drain_st();
  mesh_.pump();
  EXPECT_EQ(take_all(second_), 1U);
  mesh_.pump();
  EXPECT_EQ(free_buffers(sender_), 2 * kSlots);
}

TEST_F(PortLossTest, ALaneThatDiesBetweenClaimAndCommitLeaksNothing) {
  Port::Claim all;
  Port::Claim one;
  ASSERT_EQ(sender_.claim(kAllLanes, &all), Code::kOk);
  ASSERT_EQ(sender_.claim(0, &one), Code::kOk);
  mesh_.kill(1);
  mesh_.kill(2);
  sender_.commit(all, kAllLanes, 8, 1);
  sender_.commit(one, 0, 8, 1);
  EXPECT_EQ(queue_.drain_st(), 0U);
  EXPECT_EQ(free_buffers(sender_), 2 * kSlots);
}

TEST_F(PortLossTest, DeadLanesAreSkippedByABroadcastAndRefusedByName) {
  mesh_.kill(1);
  EXPECT_EQ(post(0), Code::kPeerLost);
  EXPECT_FALSE(sender_.writable(0));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(post(kAllLanes), Code::kOk);
    queue_.drain_st();
    mesh_.pump();
    ASSERT_EQ(take_all(second_), 1U);
    mesh_.pump();
  }
  mesh_.kill(2);
  EXPECT_EQ(post(kAllLanes), Code::kPeerLost);
}

TEST_F(PortLossTest, ADeadLaneNoLongerHoldsTheOthersBack) {
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_EQ(post(kAllLanes), Code::kOk);
  queue_.drain_st();
  mesh_.pump();
  EXPECT_EQ(take_all(second_), kSlots);
  mesh_.pump();
  EXPECT_EQ(post(kAllLanes), Code::kAgain);
  mesh_.kill(1);
  EXPECT_EQ(post(kAllLanes), Code::kOk);
}

TEST_F(PortLossTest, ReceivedFramesStayReadableAfterTheirSenderDied) {
  ASSERT_EQ(post(kAllLanes), Code::kOk);
  ASSERT_EQ(post(kAllLanes), Code::kOk);
  queue_.drain_st();
  mesh_.pump();
  mesh_.kill(0);
  EXPECT_EQ(first_.inbound_state(0), LaneState::kDead);
  EXPECT_EQ(take_all(first_), 2U);
  EXPECT_FALSE(first_.readable());
}

TEST_F(PortLossTest, AResetLosesAndDoublesNothing) {
  ASSERT_EQ(post(kAllLanes), Code::kOk);
  queue_.drain_st();
  mesh_.pump();
  ASSERT_EQ(post(kAllLanes), Code::kOk);
  queue_.drain_st();  // in flight
  mesh_.cut_all();
  EXPECT_EQ(sender_.outbound_state(0), LaneState::kConnecting);
  ASSERT_EQ(post(kAllLanes), Code::kOk);
  queue_.drain_st();
  mesh_.connect();
  mesh_.pump();
  EXPECT_EQ(take_all(first_), 3U);
  EXPECT_EQ(take_all(second_), 3U);
  EXPECT_EQ(sender_.writer_st(0).counters_st().replayed, 1U);
  mesh_.pump();
  EXPECT_EQ(free_buffers(sender_), 2 * kSlots);
}

TEST_F(PortLossTest, FramesLentBeforeAResetAreReadableAndReleasedAfterIt) {
  ASSERT_EQ(post(0), Code::kOk);
  queue_.drain_st();
  mesh_.pump();
  Received held;
  ASSERT_EQ(first_.receive(&held), Code::kOk);
  for (int reset = 0; reset < 3; ++reset) {
    mesh_.cut_all();
    mesh_.connect();
    ASSERT_EQ(post(0), Code::kOk);
    queue_.drain_st();
    mesh_.pump();
    EXPECT_EQ(take_all(first_), 1U);
  }
  EXPECT_EQ(held.payload[0], std::byte{0});
  EXPECT_EQ(sender_.unreleased(0), 4U);
  first_.release(held);
  mesh_.pump();
  EXPECT_EQ(sender_.unreleased(0), 0U);
  EXPECT_EQ(free_buffers(sender_), 2 * kSlots);
}

}  // namespace
}  // namespace asyncmesh
