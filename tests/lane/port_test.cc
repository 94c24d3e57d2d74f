#include "lane/port.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/fake_mesh.h"

namespace asyncmesh {
namespace {

using test::DirectSubmitter;
using test::FakeMesh;

constexpr uint32_t kSlots = 4;
constexpr uint32_t kPayload = 64;

class PortTest : public testing::Test {
 protected:
  PortTest() {
    mesh_.attach(0, sender_);
    mesh_.attach(1, first_);
    mesh_.attach(2, second_);
  }
  ~PortTest() override { EXPECT_EQ(mesh_.violations(), 0U); }

  Code post(uint32_t lane, uint64_t value) {
    Port::Claim claim;
    const Code code = sender_.claim(lane, &claim);
    if (code != Code::kOk) return code;
    std::memcpy(claim.payload, &value, sizeof value);
    sender_.commit(claim, lane, sizeof value, 3);
    return Code::kOk;
  }
  static Code take(Port& port, uint64_t* value_out) {
    Received received;
    const Code code = port.receive(&received);
    if (code != Code::kOk) return code;
    EXPECT_EQ(received.header.kind, 3);
    EXPECT_EQ(received.header.bytes, sizeof *value_out);
    std::memcpy(value_out, received.payload, sizeof *value_out);
    port.release(received);
    return Code::kOk;
  }
  static void expect_next(Port& port, uint64_t expected) {
    uint64_t value = 0;
    ASSERT_EQ(take(port, &value), Code::kOk);
    EXPECT_EQ(value, expected);
  }

  FakeClock clock_;
  DirectSubmitter submitter_;
  Port sender_{{{1, 2}, {}, kSlots, kPayload}, clock_, submitter_};
  Port first_{{{}, {0}, kSlots, kPayload}, clock_, submitter_};
  Port second_{{{}, {0}, kSlots, kPayload}, clock_, submitter_};
  FakeMesh mesh_{false};
};

TEST_F(PortTest, RoundsSlotsUpToAPowerOfTwo) {
  EXPECT_EQ(Port({{1}, {}, 5, 8}, clock_, submitter_).geometry().slots, 8U);
  EXPECT_EQ(Port({{1}, {}, 0, 8}, clock_, submitter_).geometry().slots, 2U);
}

TEST_F(PortTest, BroadcastsOneFrameToEveryLane) {
  mesh_.connect();
  ASSERT_EQ(post(kAllLanes, 42), Code::kOk);
  mesh_.pump();
  expect_next(first_, 42);
  expect_next(second_, 42);
  EXPECT_EQ(sender_.posted(0), 1U);
  EXPECT_EQ(sender_.posted(1), 1U);
}

TEST_F(PortTest, SendsToOneLaneOnly) {
  mesh_.connect();
  ASSERT_EQ(post(1, 7), Code::kOk);
  mesh_.pump();
  uint64_t value = 0;
  EXPECT_EQ(take(first_, &value), Code::kAgain);
  expect_next(second_, 7);
}

TEST_F(PortTest, TellsTheSourceOfAFrame) {
  mesh_.connect();
  ASSERT_EQ(post(0, 7), Code::kOk);
  mesh_.pump();
  Received received;
  ASSERT_EQ(first_.receive(&received), Code::kOk);
  EXPECT_EQ(received.origin.source, 0U);
  EXPECT_EQ(received.origin.lane, 0U);
  EXPECT_EQ(received.sequence, 1U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(received.payload) % 16, 0U);
}

TEST_F(PortTest, AcceptsPostsBeforeItIsConnected) {
  for (uint64_t i = 0; i < kSlots; ++i) EXPECT_EQ(post(kAllLanes, i), Code::kOk);
  EXPECT_EQ(post(kAllLanes, 9), Code::kAgain);
  EXPECT_EQ(sender_.outbound_state(0), LaneState::kConnecting);
  mesh_.connect();
  mesh_.pump();
  for (uint64_t i = 0; i < kSlots; ++i) expect_next(first_, i);
}

TEST_F(PortTest, AnswersAgainWhileOneLaneIsFullAndTakesNothing) {
  mesh_.connect();
  for (uint64_t i = 0; i < kSlots; ++i) ASSERT_EQ(post(kAllLanes, i), Code::kOk);
  mesh_.pump();
  for (uint64_t i = 0; i < kSlots; ++i) expect_next(first_, i);  // second_ takes nothing
  mesh_.pump();
  EXPECT_TRUE(sender_.writable(0));
  EXPECT_FALSE(sender_.writable(1));
  EXPECT_FALSE(sender_.writable(kAllLanes));
  EXPECT_EQ(post(kAllLanes, 9), Code::kAgain);
  EXPECT_EQ(sender_.posted(0), kSlots);
  for (uint64_t i = 0; i < kSlots; ++i) expect_next(second_, i);
  mesh_.pump();
  EXPECT_EQ(post(kAllLanes, 9), Code::kOk);
}

TEST_F(PortTest, CountsOpenClaimsAsCredit) {
  mesh_.connect();
  Port::Claim claims[kSlots + 1];
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_EQ(sender_.claim(0, &claims[i]), Code::kOk);
  EXPECT_EQ(sender_.claim(0, &claims[kSlots]), Code::kAgain);
  sender_.abandon(claims[0]);
  EXPECT_EQ(sender_.claim(0, &claims[0]), Code::kOk);
  for (uint32_t i = 0; i < kSlots; ++i) sender_.commit(claims[i], 0, 0, 3);
  EXPECT_EQ(sender_.unreleased(0), kSlots);
}

TEST_F(PortTest, SkipsAMutedLane) {
  mesh_.connect();
  ASSERT_EQ(post(kAllLanes, 1), Code::kOk);
  sender_.mute(1);
  sender_.mute(1);
  for (uint64_t i = 2; i < kSlots + 3; ++i) {
    mesh_.pump();
    expect_next(first_, i - 1);
    mesh_.pump();
    ASSERT_EQ(post(kAllLanes, i), Code::kOk);
  }
  expect_next(second_, 1);
  uint64_t value = 0;
  EXPECT_EQ(take(second_, &value), Code::kAgain);
}

TEST_F(PortTest, WithEveryLaneMutedHasNobodyToSendTo) {
  mesh_.connect();
  sender_.mute(0);
  sender_.mute(1);
  Port::Claim claim;
  EXPECT_EQ(sender_.claim(kAllLanes, &claim), Code::kPeerLost);
  ASSERT_EQ(sender_.claim_buffer(&claim), Code::kOk);
  sender_.commit(claim, kAllLanes, 8, 3);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(sender_.claim_buffer(&claim), Code::kOk);
    sender_.commit(claim, kAllLanes, 8, 3);
  }
}

TEST_F(PortTest, ReportsTakenAndReleasedApart) {
  mesh_.connect();
  ASSERT_EQ(post(0, 1), Code::kOk);
  ASSERT_EQ(post(0, 2), Code::kOk);
  mesh_.pump();
  EXPECT_EQ(sender_.untaken(0), 2U);
  Received received;
  ASSERT_EQ(first_.receive(&received), Code::kOk);
  mesh_.pump();
  EXPECT_EQ(sender_.untaken(0), 1U);
  EXPECT_EQ(sender_.unreleased(0), 2U);
  first_.release(received);
  mesh_.pump();
  EXPECT_EQ(sender_.unreleased(0), 1U);
}

TEST_F(PortTest, ALentFrameDoesNotMoveWhileLaterOnesPass) {
  mesh_.connect();
  ASSERT_EQ(post(0, 1), Code::kOk);
  mesh_.pump();
  Received held;
  ASSERT_EQ(first_.receive(&held), Code::kOk);
  for (uint64_t i = 2; i <= kSlots; ++i) ASSERT_EQ(post(0, i), Code::kOk);
  mesh_.pump();
  for (uint64_t i = 2; i <= kSlots; ++i) expect_next(first_, i);
  mesh_.pump();
  EXPECT_EQ(post(0, 9), Code::kAgain);  // slots are freed in order
  uint64_t value = 0;
  std::memcpy(&value, held.payload, sizeof value);
  EXPECT_EQ(value, 1U);
  first_.release(held);
  mesh_.pump();
  EXPECT_EQ(post(0, 9), Code::kOk);
}

TEST_F(PortTest, MeasuresTheTimeThatItWasBlocked) {
  for (uint64_t i = 0; i < kSlots; ++i) ASSERT_EQ(post(kAllLanes, i), Code::kOk);
  EXPECT_EQ(post(kAllLanes, 9), Code::kAgain);
  clock_.advance(100);
  EXPECT_EQ(post(kAllLanes, 9), Code::kAgain);
  clock_.advance(50);
  mesh_.connect();
  mesh_.pump();
  for (uint64_t i = 0; i < kSlots; ++i) expect_next(first_, i);
  for (uint64_t i = 0; i < kSlots; ++i) expect_next(second_, i);
  mesh_.pump();
  ASSERT_EQ(post(kAllLanes, 9), Code::kOk);
  EXPECT_EQ(sender_.counters().refused, 2U);
  EXPECT_EQ(sender_.counters().blocked_ns, 150);
}

TEST_F(PortTest, APortThatOnlyReadsHoldsNoBuffers) {
  EXPECT_EQ(first_.staging_st().buffers(), 0U);
  EXPECT_EQ(first_.max_submissions(), kSlots);
  EXPECT_EQ(sender_.staging_st().buffers(), 2 * kSlots);
  EXPECT_EQ(sender_.max_submissions(), 2 * kSlots + 2);
}

}  // namespace
}  // namespace asyncmesh
