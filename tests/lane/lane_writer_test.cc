#include "lane/lane_writer.h"

#include <gtest/gtest.h>

#include <vector>

namespace asyncmesh {
namespace {

using transport::Credit;
using transport::Sequence;

constexpr uint32_t kSlots = 4;

struct Wire {
  std::vector<Sequence> sent;
  std::vector<uint32_t> bytes;
  bool alive = false;
  Code answer = Code::kOk;
};

class RecordingOutbound final : public transport::Outbound {
 public:
  explicit RecordingOutbound(Wire& wire) : wire_(wire) { wire_.alive = true; }
  ~RecordingOutbound() override { wire_.alive = false; }
  Code send(Sequence sequence, const transport::Frame& frame) override {
    wire_.sent.push_back(sequence);
    wire_.bytes.push_back(frame.bytes);
    return wire_.answer;
  }

 private:
  Wire& wire_;
};

class LaneWriterTest : public testing::Test {
 protected:
  Code open(Sequence resume) {
    wire_.sent.clear();
    return writer_.open_st(std::make_unique<RecordingOutbound>(wire_), resume, 0);
  }
  void post(uint32_t bytes = 100) {
    uint32_t buffer = 0;
    ASSERT_TRUE(pool_.claim(&buffer));
    writer_.note_posted();
    pool_.retain_st(buffer, 1);
    writer_.append_st(buffer, bytes);
  }
  uint32_t free_buffers() {
    std::vector<uint32_t> claimed;
    uint32_t buffer = 0;
    while (pool_.claim(&buffer)) claimed.push_back(buffer);
    for (const uint32_t b : claimed) pool_.unclaim(b);
    return static_cast<uint32_t>(claimed.size());
  }

  StagingPool pool_{2 * kSlots, 120};
  Wire wire_;
  LaneWriter writer_{kSlots, pool_};
};

using Sequences = std::vector<Sequence>;

TEST_F(LaneWriterTest, QueuesBeforeTheFirstLinkAndSendsInOrderOnOpen) {
  post(80);
  post(96);
  EXPECT_EQ(writer_.state(), LaneState::kConnecting);
  ASSERT_EQ(open(1), Code::kOk);
  EXPECT_EQ(wire_.sent, (Sequences{1, 2}));
  EXPECT_EQ(wire_.bytes, (std::vector<uint32_t>{80, 96}));
  EXPECT_EQ(writer_.state(), LaneState::kOpen);
  EXPECT_EQ(writer_.counters_st().replayed, 0U);
}

TEST_F(LaneWriterTest, HasCreditForAsManyFramesAsTheReaderHasSlots) {
  ASSERT_EQ(open(1), Code::kOk);
  for (uint32_t i = 0; i < kSlots; ++i) {
    EXPECT_TRUE(writer_.has_credit());
    EXPECT_FALSE(writer_.has_credit(kSlots - i));
    post();
  }
  EXPECT_FALSE(writer_.has_credit());
  writer_.on_credit({2, 1, 1});
  EXPECT_TRUE(writer_.has_credit());
  EXPECT_EQ(writer_.unreleased(), 3U);
  EXPECT_EQ(writer_.untaken(), 3U);
}

TEST_F(LaneWriterTest, KeepsAFrameUntilItIsBothReleasedAndSent) {
  ASSERT_EQ(open(1), Code::kOk);
  post();
  post();
  writer_.on_sent(2);
  writer_.on_credit({2, 2, 2});
  EXPECT_EQ(free_buffers(), 2 * kSlots - 2);  // frame 1 is still being read, 2 waits behind it
  writer_.on_sent(1);
  EXPECT_EQ(free_buffers(), 2 * kSlots);
}

TEST_F(LaneWriterTest, ReplaysFromTheResumePointInOrder) {
  ASSERT_EQ(open(1), Code::kOk);
  for (int i = 0; i < 3; ++i) post();
  writer_.close_st();
  EXPECT_FALSE(wire_.alive);
  EXPECT_EQ(writer_.state(), LaneState::kConnecting);
  post();
  ASSERT_EQ(open(2), Code::kOk);
  EXPECT_EQ(wire_.sent, (Sequences{2, 3, 4}));
  EXPECT_EQ(writer_.counters_st().replayed, 2U);  // 4 was never sent before
  EXPECT_EQ(writer_.counters_st().frames, 4U);
}

TEST_F(LaneWriterTest, WhatTheReaderHadIsNotSentAgainAndWaitsForItsRelease) {
  ASSERT_EQ(open(1), Code::kOk);
  post();
  post();
  writer_.close_st();
  ASSERT_EQ(open(3), Code::kOk);
  EXPECT_TRUE(wire_.sent.empty());
  EXPECT_EQ(free_buffers(), 2 * kSlots - 2);
  writer_.on_credit({2, 2, 2});
  EXPECT_EQ(free_buffers(), 2 * kSlots);
}

TEST_F(LaneWriterTest, ClosingFreesWhatWasReleasedButStillOnTheWire) {
  ASSERT_EQ(open(1), Code::kOk);
  post();
  writer_.on_credit({1, 1, 1});
  EXPECT_EQ(free_buffers(), 2 * kSlots - 1);
  writer_.close_st();
  EXPECT_EQ(free_buffers(), 2 * kSlots);
}

TEST_F(LaneWriterTest, RefusesAResumePointOfFramesThatTheReaderHad) {
  ASSERT_EQ(open(1), Code::kOk);
  post();
  post();
  writer_.on_credit({2, 0, 0});
  EXPECT_EQ(open(2), Code::kMismatch);
  EXPECT_FALSE(wire_.alive);
  EXPECT_EQ(writer_.state(), LaneState::kConnecting);
  EXPECT_EQ(open(0), Code::kMismatch);
  EXPECT_EQ(open(3), Code::kOk);
}

TEST_F(LaneWriterTest, RefusesAResumePointOfFramesThatWereNeverSent) {
  post();
  EXPECT_EQ(open(2), Code::kMismatch);
  EXPECT_EQ(open(1), Code::kOk);
  EXPECT_EQ(open(3), Code::kMismatch);
  EXPECT_EQ(open(2), Code::kOk);
}

TEST_F(LaneWriterTest, IgnoresCreditThatGoesBack) {
  ASSERT_EQ(open(1), Code::kOk);
  for (int i = 0; i < 3; ++i) post();
  writer_.on_credit({3, 2, 2});
  writer_.on_credit({2, 1, 1});
  writer_.on_credit({3, 3, 0});
  EXPECT_EQ(writer_.fault_st(), Code::kOk);
  EXPECT_EQ(writer_.credit_st(), (Credit{3, 3, 2}));
  EXPECT_EQ(writer_.unreleased(), 1U);
}

TEST_F(LaneWriterTest, ImpossibleCreditIsAFaultAndChangesNothing) {
  const std::vector<Credit> impossible = {
      {3, 0, 0}, {1, 2, 0}, {1, 1, 2}, {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
  for (const Credit& credit : impossible) {
    StagingPool pool(2 * kSlots, 120);
    LaneWriter writer(kSlots, pool);
    Wire wire;
    ASSERT_EQ(writer.open_st(std::make_unique<RecordingOutbound>(wire), 1, 0), Code::kOk);
    for (int i = 0; i < 2; ++i) {
      uint32_t buffer = 0;
      ASSERT_TRUE(pool.claim(&buffer));
      writer.note_posted();
      pool.retain_st(buffer, 1);
      writer.append_st(buffer, 100);
    }
    writer.on_credit(credit);
    EXPECT_EQ(writer.fault_st(), Code::kLinkError);
    EXPECT_EQ(writer.unreleased(), 2U);
    EXPECT_EQ(writer.credit_st(), Credit{});
  }
}

TEST_F(LaneWriterTest, ANewLinkClearsAFault) {
  ASSERT_EQ(open(1), Code::kOk);
  writer_.on_credit({9, 9, 9});
  ASSERT_EQ(writer_.fault_st(), Code::kLinkError);
  ASSERT_EQ(open(1), Code::kOk);
  EXPECT_EQ(writer_.fault_st(), Code::kOk);
}

TEST_F(LaneWriterTest, ARefusedSendIsAFaultAndTheFrameGoesOutWithTheNextLink) {
  ASSERT_EQ(open(1), Code::kOk);
  wire_.answer = Code::kLinkError;
  post();
  post();
  EXPECT_EQ(wire_.sent, (Sequences{1}));
  EXPECT_EQ(writer_.fault_st(), Code::kLinkError);
  wire_.answer = Code::kOk;
  ASSERT_EQ(open(1), Code::kOk);
  EXPECT_EQ(wire_.sent, (Sequences{1, 2}));
}

TEST_F(LaneWriterTest, FailingGivesEveryBufferBackForGood) {
  ASSERT_EQ(open(1), Code::kOk);
  for (int i = 0; i < 3; ++i) post();
  writer_.fail_st();
  EXPECT_EQ(writer_.state(), LaneState::kDead);
  EXPECT_FALSE(wire_.alive);
  EXPECT_EQ(free_buffers(), 2 * kSlots);
  post();  // committed before the application saw the loss
  EXPECT_EQ(free_buffers(), 2 * kSlots);
  EXPECT_EQ(open(1), Code::kPeerLost);
  writer_.close_st();
  EXPECT_EQ(writer_.state(), LaneState::kDead);
}

TEST_F(LaneWriterTest, ALateAnswerToAProbeDoesNotDisturbADeadLane) {
  ASSERT_EQ(open(1), Code::kOk);
  post();
  writer_.fail_st();
  writer_.on_credit({1, 1, 1});
  writer_.on_sent(1);
  EXPECT_EQ(free_buffers(), 2 * kSlots);
}

TEST_F(LaneWriterTest, ProbesOncePerQuietWhileAFrameIsNotReleased) {
  ASSERT_EQ(open(1), Code::kOk);
  EXPECT_FALSE(writer_.probe_due_st(0, 10));
  EXPECT_FALSE(writer_.probe_due_st(100, 10));  // nothing to ask for
  post();
  EXPECT_FALSE(writer_.probe_due_st(101, 10));
  EXPECT_FALSE(writer_.probe_due_st(110, 10));
  EXPECT_TRUE(writer_.probe_due_st(111, 10));
  EXPECT_FALSE(writer_.probe_due_st(112, 10));
  EXPECT_TRUE(writer_.probe_due_st(121, 10));
  writer_.on_credit({1, 1, 0});  // movement
  EXPECT_FALSE(writer_.probe_due_st(135, 10));
  EXPECT_TRUE(writer_.probe_due_st(145, 10));
  writer_.on_credit({1, 1, 1});
  EXPECT_FALSE(writer_.probe_due_st(500, 10));
}

TEST_F(LaneWriterTest, StallsWhenAFrameIsNotReceivedAndNothingMoves) {
  ASSERT_EQ(open(1), Code::kOk);
  EXPECT_FALSE(writer_.stalled_st(0, 10));
  post();  // long after the watchdog looked last: its silence starts at the next look
  EXPECT_FALSE(writer_.stalled_st(1000, 10));
  EXPECT_FALSE(writer_.stalled_st(1009, 10));
  EXPECT_TRUE(writer_.stalled_st(1010, 10));
  writer_.on_sent(1);
  EXPECT_FALSE(writer_.stalled_st(1011, 10));
  EXPECT_TRUE(writer_.stalled_st(1021, 10));
  writer_.on_credit({1, 0, 0});  // received; the application may keep it for ever
  EXPECT_FALSE(writer_.stalled_st(8000, 10));
  EXPECT_FALSE(writer_.stalled_st(9000, 10));
}

TEST_F(LaneWriterTest, IsNeitherStalledNorProbedWhileConnecting) {
  ASSERT_EQ(open(1), Code::kOk);
  post();
  writer_.close_st();
  EXPECT_FALSE(writer_.stalled_st(0, 10));
  EXPECT_FALSE(writer_.stalled_st(100, 10));
  EXPECT_FALSE(writer_.probe_due_st(200, 10));
}

// Reports its frames only when it is closed, as an engine that cancels its requests does.
class LateOutbound final : public transport::Outbound {
 public:
  explicit LateOutbound(transport::OutboundSink& sink) : sink_(sink) {}
  ~LateOutbound() override {
    for (Sequence sequence = 1; sequence <= last_; ++sequence) sink_.on_sent(sequence);
  }
  Code send(Sequence sequence, const transport::Frame&) override {
    last_ = sequence;
    return Code::kOk;
  }

 private:
  transport::OutboundSink& sink_;
  Sequence last_ = 0;
};

TEST_F(LaneWriterTest, BearsReportsFromInsideTheOutboundsDestructor) {
  for (const bool fail : {false, true}) {
    StagingPool pool(2 * kSlots, 120);
    LaneWriter writer(kSlots, pool);
    ASSERT_EQ(writer.open_st(std::make_unique<LateOutbound>(writer), 1, 0), Code::kOk);
    uint32_t buffer = 0;
    ASSERT_TRUE(pool.claim(&buffer));
    writer.note_posted();
    pool.retain_st(buffer, 1);
    writer.append_st(buffer, 100);
    if (fail) writer.fail_st();
  }
}

}  // namespace
}  // namespace asyncmesh
