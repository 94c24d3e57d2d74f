#include "lane/lane_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

namespace asyncmesh {
namespace {

using transport::Credit;
using transport::Sequence;

constexpr uint32_t kSlots = 4;
constexpr uint32_t kPayload = 16;
constexpr transport::LaneGeometry kGeometry{kSlots, slot_bytes_for(kPayload)};

using Sequences = std::vector<Sequence>;

struct Wire {
  Sequences released;
  std::vector<Credit> credits;
  Code answer = Code::kOk;
  bool stopped = false;
  bool alive = true;
};

class RecordingInbound final : public transport::Inbound {
 public:
  explicit RecordingInbound(Wire& wire) : wire_(wire) {}
  ~RecordingInbound() override { wire_.alive = false; }
  std::span<const std::byte> offer() const override { return {}; }
  void release(Sequence sequence) override { wire_.released.push_back(sequence); }
  Code send_credit(const Credit& credit) override {
    if (wire_.answer == Code::kOk) wire_.credits.push_back(credit);
    return wire_.answer;
  }
  void stop() override { wire_.stopped = true; }

 private:
  Wire& wire_;
};

class LaneReaderTest : public testing::Test {
 protected:
  LaneReaderTest() { open(first_); }

  void open(Wire& wire) { reader_.open_st(std::make_unique<RecordingInbound>(wire)); }
  std::vector<std::byte>& slot(Sequence sequence) { return slots_[sequence % kSlots]; }
  void arrive(Sequence sequence, uint8_t kind = 1) {
    slot(sequence).assign(kGeometry.slot_bytes, std::byte{0});
    seal_frame(slot(sequence).data(), 8, kind, false);
    reader_.on_frame(sequence, slot(sequence).data(), kGeometry.slot_bytes);
  }
  void take(uint32_t frames) {
    for (uint32_t i = 0; i < frames; ++i) reader_.note_taken();
  }
  const Sequences& published() {
    for (Received received; inbox_.pop(&received);) {
      EXPECT_EQ(received.origin.lane, 5U);
      EXPECT_EQ(received.origin.source, 7U);
      EXPECT_EQ(received.payload, slot(received.sequence).data() + kFrameHeaderBytes);
      EXPECT_EQ(received.header.bytes, 8U);
      published_.push_back(received.sequence);
    }
    return published_;
  }

  std::vector<std::byte> slots_[kSlots];
  Sequences published_;
  Wire first_;
  Wire second_;
  SpscRing<Received> inbox_{2 * kSlots};
  LaneReader reader_{Origin{5, 7}, kGeometry, 0, inbox_};
};

TEST_F(LaneReaderTest, PublishesInSequenceWhateverTheOrderOfArrival) {
  arrive(3);
  arrive(2);
  EXPECT_TRUE(published().empty());
  arrive(1);
  EXPECT_EQ(published(), (Sequences{1, 2, 3}));
  arrive(4);
  EXPECT_EQ(published(), (Sequences{1, 2, 3, 4}));
  EXPECT_EQ(reader_.counters_st().frames, 4U);
  EXPECT_EQ(reader_.counters_st().bytes, 32U);
}

TEST_F(LaneReaderTest, DropsAndCountsWhatItHasAlready) {
  arrive(1);
  arrive(3);
  reader_.on_frame(1, slot(1).data(), kGeometry.slot_bytes);  // published
  reader_.on_frame(3, slot(3).data(), kGeometry.slot_bytes);  // waiting
  EXPECT_EQ(published(), (Sequences{1}));
  EXPECT_EQ(reader_.counters_st().duplicates, 2U);
  EXPECT_EQ(reader_.fault_st(0, 10), Code::kOk);
}

TEST_F(LaneReaderTest, ReleasesInOrderHoweverTheApplicationDoes) {
  for (Sequence s = 1; s <= 4; ++s) arrive(s);
  take(4);
  reader_.release_st(3);
  reader_.release_st(2);
  EXPECT_TRUE(first_.released.empty());
  EXPECT_EQ(reader_.credit_st(), (Credit{4, 4, 0}));
  reader_.release_st(1);
  EXPECT_EQ(first_.released, (Sequences{1, 2, 3}));
  EXPECT_EQ(reader_.credit_st(), (Credit{4, 4, 3}));
}

TEST_F(LaneReaderTest, IgnoresAStrayRelease) {
  arrive(1);
  take(1);
  reader_.release_st(1);
  reader_.release_st(1);
  reader_.release_st(2);
  reader_.release_st(0);
  EXPECT_EQ(reader_.credit_st(), (Credit{1, 1, 1}));
}

TEST_F(LaneReaderTest, ASequenceOutsideTheWindowIsAFault) {
  arrive(1);
  arrive(kSlots + 1);
  EXPECT_EQ(reader_.fault_st(0, 1000), Code::kLinkError);
  EXPECT_EQ(reader_.counters_st().invalid, 1U);
  EXPECT_EQ(published(), (Sequences{1}));
}

TEST_F(LaneReaderTest, ABadFrameIsAFaultAndNothingAfterItIsPublished) {
  arrive(2);
  slot(1).assign(kGeometry.slot_bytes, std::byte{0x5A});
  reader_.on_frame(1, slot(1).data(), kGeometry.slot_bytes);
  EXPECT_EQ(reader_.fault_st(0, 1000), Code::kLinkError);
  arrive(1);
  EXPECT_TRUE(published().empty());
  // Expect: a new link starts over from the bad frame.
  EXPECT_EQ(reader_.resume_st(), 1U);
  open(second_);
  EXPECT_EQ(reader_.fault_st(0, 1000), Code::kOk);
  arrive(1);
  arrive(2);
  EXPECT_EQ(published(), (Sequences{1, 2}));
}

TEST_F(LaneReaderTest, ABadFrameThatCameEarlyIsAFaultWhenItsTurnComes) {
  slot(2).assign(kGeometry.slot_bytes, std::byte{0x5A});
  reader_.on_frame(2, slot(2).data(), kGeometry.slot_bytes);
  arrive(1);
  EXPECT_EQ(published(), (Sequences{1}));
  EXPECT_EQ(reader_.fault_st(0, 1000), Code::kLinkError);
  EXPECT_EQ(reader_.resume_st(), 2U);
}

TEST_F(LaneReaderTest, TrustsNoMoreBytesThanTheSlotHas) {
  slot(1).assign(kGeometry.slot_bytes, std::byte{0});
  seal_frame(slot(1).data(), 8, 1, false);
  reader_.on_frame(1, slot(1).data(), UINT32_MAX);
  EXPECT_EQ(published(), (Sequences{1}));
}

TEST_F(LaneReaderTest, AGapIsAFaultOnlyWhenItStands) {
  arrive(2);
  EXPECT_EQ(reader_.fault_st(100, 10), Code::kOk);
  EXPECT_EQ(reader_.fault_st(109, 10), Code::kOk);
  arrive(1);
  arrive(4);
  EXPECT_EQ(reader_.fault_st(115, 10), Code::kOk);  // another gap
  EXPECT_EQ(reader_.fault_st(125, 10), Code::kLinkError);
  arrive(3);
  EXPECT_EQ(reader_.fault_st(126, 10), Code::kOk);
  EXPECT_EQ(reader_.fault_st(999, 10), Code::kOk);
}

TEST_F(LaneReaderTest, StatesItsCreditAtEveryOpen) {
  EXPECT_EQ(reader_.flush_credit_st(0, 1000), 1U);
  EXPECT_EQ(first_.credits, (std::vector<Credit>{{0, 0, 0}}));
  EXPECT_FALSE(reader_.credit_pending_st());
  open(second_);
  EXPECT_TRUE(reader_.credit_pending_st());
  EXPECT_EQ(reader_.flush_credit_st(0, 1000), 1U);
  EXPECT_EQ(second_.credits.size(), 1U);
}

TEST_F(LaneReaderTest, SendsCreditAtOnceWhenHalfOfTheSlotsAreOwed) {
  reader_.flush_credit_st(0, 1000);
  arrive(1);
  arrive(2);
  EXPECT_EQ(reader_.flush_credit_st(0, 1000), 0U);
  take(1);
  EXPECT_EQ(reader_.flush_credit_st(0, 1000), 0U);
  take(1);
  EXPECT_EQ(reader_.flush_credit_st(0, 1000), 1U);
  reader_.release_st(1);
  EXPECT_EQ(reader_.flush_credit_st(0, 1000), 0U);
  reader_.release_st(2);
  EXPECT_EQ(reader_.flush_credit_st(0, 1000), 1U);
  EXPECT_EQ(first_.credits.back(), (Credit{2, 2, 2}));
}

TEST_F(LaneReaderTest, SendsWhateverIsOwedAfterQuiet) {
  reader_.flush_credit_st(0, 1000);
  arrive(1);
  EXPECT_EQ(reader_.flush_credit_st(50, 10), 0U);
  EXPECT_TRUE(reader_.credit_pending_st());
  EXPECT_EQ(reader_.flush_credit_st(59, 10), 0U);
  EXPECT_EQ(reader_.flush_credit_st(60, 10), 1U);
  EXPECT_EQ(first_.credits.back(), (Credit{1, 0, 0}));
  EXPECT_FALSE(reader_.credit_pending_st());
  EXPECT_EQ(reader_.flush_credit_st(500, 10), 0U);
}

TEST_F(LaneReaderTest, ATightTakeBoundMakesCreditLeaveWithTheFirstTake) {
  LaneReader reader(Origin{5, 7}, kGeometry, 1, inbox_);
  Wire wire;
  reader.open_st(std::make_unique<RecordingInbound>(wire));
  reader.flush_credit_st(0, 1000);
  slot(1).assign(kGeometry.slot_bytes, std::byte{0});
  seal_frame(slot(1).data(), 8, 1, false);
  reader.on_frame(1, slot(1).data(), kGeometry.slot_bytes);
  EXPECT_EQ(reader.flush_credit_st(0, 1000), 0U);
  reader.note_taken();
  EXPECT_EQ(reader.flush_credit_st(0, 1000), 1U);
}

TEST_F(LaneReaderTest, TriesAgainWhenTheTransportIsBusyWithTheLastCredit) {
  first_.answer = Code::kAgain;
  EXPECT_EQ(reader_.flush_credit_st(0, 0), 0U);
  EXPECT_TRUE(reader_.credit_pending_st());
  first_.answer = Code::kOk;
  EXPECT_EQ(reader_.flush_credit_st(0, 0), 1U);
}

TEST_F(LaneReaderTest, KeepsAStoppedInboundWhileItsSlotsAreLent) {
  arrive(1);
  arrive(2);
  take(2);
  reader_.release_st(1);
  open(second_);
  EXPECT_TRUE(first_.stopped);
  EXPECT_TRUE(first_.alive);
  EXPECT_EQ(reader_.resume_st(), 3U);
  reader_.release_st(2);
  EXPECT_FALSE(first_.alive);
  EXPECT_EQ(first_.released, (Sequences{1}));
  EXPECT_TRUE(second_.released.empty());  // its slots start at 3
}

TEST_F(LaneReaderTest, ReleasesAcrossLinksInTheOrderOfTheirSlots) {
  arrive(1);
  open(second_);
  arrive(2);
  take(2);
  reader_.release_st(2);
  EXPECT_TRUE(second_.released.empty());
  EXPECT_TRUE(first_.alive);
  reader_.release_st(1);
  EXPECT_FALSE(first_.alive);
  EXPECT_EQ(second_.released, (Sequences{2}));
}

TEST_F(LaneReaderTest, DropsAStoppedInboundAtOnceWhenNothingIsLent) {
  arrive(1);
  take(1);
  reader_.release_st(1);
  reader_.close_st();
  EXPECT_FALSE(first_.alive);
  EXPECT_EQ(reader_.state(), LaneState::kConnecting);
}

TEST_F(LaneReaderTest, ForgetsWhatCameEarlyWhenTheLinkGoes) {
  arrive(2);
  open(second_);
  EXPECT_EQ(reader_.resume_st(), 1U);
  arrive(1);
  EXPECT_EQ(published(), (Sequences{1}));
  arrive(2);
  EXPECT_EQ(published(), (Sequences{1, 2}));
}

TEST_F(LaneReaderTest, KeepsPublishedFramesReadableAfterThePeerIsGone) {
  arrive(1);
  reader_.fail_st();
  EXPECT_EQ(reader_.state(), LaneState::kDead);
  EXPECT_TRUE(first_.alive);
  take(1);
  reader_.release_st(1);
  EXPECT_FALSE(first_.alive);
  open(second_);
  EXPECT_EQ(reader_.state(), LaneState::kDead);
  EXPECT_FALSE(second_.alive);
}

TEST_F(LaneReaderTest, SendsNoCreditWithoutALink) {
  arrive(1);
  reader_.close_st();
  EXPECT_FALSE(reader_.credit_pending_st());
  EXPECT_EQ(reader_.flush_credit_st(0, 0), 0U);
}

}  // namespace
}  // namespace asyncmesh
