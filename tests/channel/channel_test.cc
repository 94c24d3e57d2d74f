#include "channel/channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>

#include "support/fake_mesh.h"

namespace asyncmesh {
namespace {

using test::DirectSubmitter;
using test::FakeMesh;

constexpr uint32_t kSlots = 4;
constexpr uint32_t kPayload = 64;

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() { build(0, 0); }
  ~ChannelTest() override { EXPECT_EQ(mesh_->violations(), 0U); }

  void build(uint32_t max_untaken, uint32_t max_versions) {
    ChannelConfig config{1, true, kSlots, kPayload, max_untaken, max_versions, true};
    mesh_ = std::make_unique<FakeMesh>();
    sender_ = std::make_unique<Channel>(config, clock_, submitter_);
    config.peer = 0;
    config.sender = false;
    receiver_ = std::make_unique<Channel>(config, clock_, submitter_);
    mesh_->attach(0, sender_->port());
    mesh_->attach(1, receiver_->port());
    mesh_->connect();
  }
  Code send(uint64_t micro_batch, uint64_t version = 0) {
    ChannelMeta meta;
    meta.micro_batch = micro_batch;
    meta.version = version;
    const Code code = sender_->send(meta, &micro_batch, sizeof micro_batch);
    mesh_->pump();
    return code;
  }
  Code receive(ChannelFrame* frame_out) {
    const Code code = receiver_->receive(frame_out);
    mesh_->pump();
    return code;
  }
  void release(const ChannelFrame& frame) {
    receiver_->release(frame);
    mesh_->pump();
  }

  FakeClock clock_;
  DirectSubmitter submitter_;
  std::unique_ptr<Channel> sender_;
  std::unique_ptr<Channel> receiver_;
  std::unique_ptr<FakeMesh> mesh_;
};

TEST_F(ChannelTest, CarriesMetaAndPayload) {
  ChannelMeta meta;
  meta.kind = ChannelKind::kEvaluate;
  meta.dtype = 9;
  meta.dimensions = 3;
  meta.micro_batch = 1ULL << 40;
  meta.version = 1ULL << 41;
  meta.shape = {2, 3, 5, 0};
  std::array<uint8_t, kPayload> payload{};
  std::iota(payload.begin(), payload.end(), uint8_t{1});
  ASSERT_EQ(sender_->send(meta, payload.data(), kPayload), Code::kOk);
  payload.fill(0);  // it was copied
  mesh_->pump();
  ChannelFrame frame;
  ASSERT_EQ(receiver_->receive(&frame), Code::kOk);
  EXPECT_EQ(frame.meta.kind, meta.kind);
  EXPECT_EQ(frame.meta.dtype, meta.dtype);
  EXPECT_EQ(frame.meta.dimensions, meta.dimensions);
  EXPECT_EQ(frame.meta.micro_batch, meta.micro_batch);
  EXPECT_EQ(frame.meta.version, meta.version);
  EXPECT_EQ(frame.meta.shape, meta.shape);
  ASSERT_EQ(frame.bytes, kPayload);
  EXPECT_EQ(frame.payload[0], std::byte{1});
  EXPECT_EQ(frame.payload[kPayload - 1], std::byte{kPayload});
}

TEST_F(ChannelTest, CarriesUnevenSizesUpToTheSlot) {
  const std::array<uint8_t, kPayload + 1> payload{};
  for (uint32_t bytes = 0; bytes <= kPayload; ++bytes) {
    ASSERT_EQ(sender_->send({}, bytes == 0 ? nullptr : payload.data(), bytes), Code::kOk);
    mesh_->pump();
    ChannelFrame frame;
    ASSERT_EQ(receive(&frame), Code::kOk);
    EXPECT_EQ(frame.bytes, bytes);
    release(frame);
  }
  EXPECT_EQ(sender_->send({}, payload.data(), kPayload + 1), Code::kTooLarge);
  mesh_->pump();
  EXPECT_FALSE(receiver_->ready());
}

TEST_F(ChannelTest, RefusesTheWrongEndAndTooManyDimensions) {
  ChannelFrame frame;
  EXPECT_EQ(sender_->receive(&frame), Code::kInvalidState);
  EXPECT_EQ(receiver_->send({}, nullptr, 0), Code::kInvalidState);
  ChannelMeta meta;
  meta.dimensions = kMaxDimensions + 1;
  EXPECT_EQ(sender_->send(meta, nullptr, 0), Code::kInvalidArgument);
}

TEST_F(ChannelTest, SendsAsManyAsThereAreSlotsAndGoesOnAtRelease) {
  for (uint64_t i = 0; i < kSlots; ++i) ASSERT_EQ(send(i), Code::kOk);
  EXPECT_EQ(send(9), Code::kAgain);
  EXPECT_FALSE(sender_->ready());
  ChannelFrame frame;
  ASSERT_EQ(receive(&frame), Code::kOk);
  EXPECT_EQ(send(9), Code::kAgain);  // taken, but its slot is lent
  release(frame);
  EXPECT_TRUE(sender_->ready());
  EXPECT_EQ(send(9), Code::kOk);
}

TEST_F(ChannelTest, BoundKCountsFramesThatAreNotTaken) {
  build(2, 0);
  ASSERT_EQ(send(0), Code::kOk);
  ASSERT_EQ(send(1), Code::kOk);
  EXPECT_EQ(send(2), Code::kAgain);
  EXPECT_EQ(sender_->port().counters().refused, 1U);
  ChannelFrame frame;
  ASSERT_EQ(receive(&frame), Code::kOk);
  EXPECT_EQ(send(2), Code::kOk);  // taken is enough, the slot may stay lent
  EXPECT_EQ(send(3), Code::kAgain);
}

TEST_F(ChannelTest, ATakeReachesATightlyBoundSenderWithoutWaitingForQuiet) {
  build(1, 0);
  LaneReader& reader = receiver_->port().reader_st(0);
  ASSERT_EQ(send(0), Code::kOk);
  ChannelFrame frame;
  ASSERT_EQ(receiver_->receive(&frame), Code::kOk);
  EXPECT_EQ(reader.flush_credit_st(0, kNever), 1U);
}

TEST_F(ChannelTest, BoundVHoldsTheProducerNearTheOldestUntakenFrame) {
  build(0, 2);
  ASSERT_EQ(send(0, 10), Code::kOk);
  ASSERT_EQ(send(1, 12), Code::kOk);
  EXPECT_EQ(send(2, 13), Code::kAgain);
  ChannelFrame frame;
  ASSERT_EQ(receive(&frame), Code::kOk);
  EXPECT_EQ(send(2, 13), Code::kOk);  // 12 is the oldest now
  EXPECT_EQ(send(3, 15), Code::kAgain);
}

TEST_F(ChannelTest, BoundVNeverLocksAnEmptyChannel) {
  build(0, 1);
  ASSERT_EQ(send(0, 1), Code::kOk);
  ChannelFrame frame;
  ASSERT_EQ(receive(&frame), Code::kOk);
  release(frame);
  EXPECT_EQ(send(1, 100), Code::kOk);
}

TEST_F(ChannelTest, BoundVHoldsOverManyLaps) {
  build(0, 3);
  uint64_t version = 0;
  for (uint64_t i = 0; i < 20 * kSlots; ++i) {
    ASSERT_EQ(send(i, version), Code::kOk);
    ASSERT_EQ(send(i, version + 4), Code::kAgain);
    ASSERT_EQ(send(i, version + 3), Code::kOk);
    for (int k = 0; k < 2; ++k) {
      ChannelFrame frame;
      ASSERT_EQ(receive(&frame), Code::kOk);
      release(frame);
    }
    version += 7;
  }
}

TEST_F(ChannelTest, ReadyAsksForTheVersionThatTheSenderHas) {
  build(0, 2);
  ASSERT_EQ(send(0, 10), Code::kOk);
  EXPECT_TRUE(sender_->ready());
  sender_->set_version(13);
  EXPECT_FALSE(sender_->ready());
}

TEST_F(ChannelTest, MeasuresStalenessAgainstTheConsumersVersion) {
  const uint64_t versions[] = {7, 5, 0, 9};
  for (const uint64_t version : versions) ASSERT_EQ(send(0, version), Code::kOk);
  receiver_->set_version(7);
  const int64_t expected[] = {0, 2, 7, -2};
  for (const int64_t staleness : expected) {
    ChannelFrame frame;
    ASSERT_EQ(receive(&frame), Code::kOk);
    EXPECT_EQ(frame.staleness, staleness);
    release(frame);
  }
  const auto& histogram = receiver_->staleness_histogram();
  EXPECT_EQ(histogram[0], 2U);  // 0 and -2
  EXPECT_EQ(histogram[2], 1U);
  EXPECT_EQ(histogram[7], 1U);
}

TEST_F(ChannelTest, CountsGreatStalenessInTheLastBucket) {
  ASSERT_EQ(send(0, 0), Code::kOk);
  receiver_->set_version(1'000'000);
  ChannelFrame frame;
  ASSERT_EQ(receive(&frame), Code::kOk);
  EXPECT_EQ(receiver_->staleness_histogram()[kStalenessBuckets - 1], 1U);
}

TEST_F(ChannelTest, FramesOfALostProducerComeBeforeTheLoss) {
  ASSERT_EQ(send(0), Code::kOk);
  ASSERT_EQ(send(1), Code::kOk);
  mesh_->kill(0);
  ChannelFrame frame;
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_EQ(receiver_->receive(&frame), Code::kOk);
    EXPECT_EQ(frame.meta.micro_batch, i);
    receiver_->release(frame);
  }
  EXPECT_EQ(receiver_->receive(&frame), Code::kPeerLost);
}

TEST_F(ChannelTest, SendsNothingToALostConsumer) {
  mesh_->kill(1);
  EXPECT_EQ(send(0), Code::kPeerLost);
  EXPECT_FALSE(sender_->ready());
}

TEST_F(ChannelTest, AResetKeepsBoundsAndOrder) {
  build(3, 0);
  ASSERT_EQ(send(0), Code::kOk);
  mesh_->cut_all();
  ASSERT_EQ(send(1), Code::kOk);
  ASSERT_EQ(send(2), Code::kOk);
  EXPECT_EQ(send(3), Code::kAgain);
  mesh_->connect();
  mesh_->pump();
  for (uint64_t i = 0; i < 3; ++i) {
    ChannelFrame frame;
    ASSERT_EQ(receive(&frame), Code::kOk);
    EXPECT_EQ(frame.meta.micro_batch, i);
    release(frame);
  }
}

TEST_F(ChannelTest, DropsReleasesAndCountsWhatIsNotAChannelFrame) {
  ChannelMeta wrong;
  wrong.kind = static_cast<ChannelKind>(0);
  ASSERT_EQ(sender_->send(wrong, nullptr, 0), Code::kOk);
  wrong.kind = static_cast<ChannelKind>(77);
  ASSERT_EQ(sender_->send(wrong, nullptr, 0), Code::kOk);
  ASSERT_EQ(send(5), Code::kOk);
  ChannelFrame frame;
  ASSERT_EQ(receive(&frame), Code::kOk);
  EXPECT_EQ(frame.meta.micro_batch, 5U);
  EXPECT_EQ(receiver_->malformed(), 2U);
  release(frame);
  EXPECT_EQ(sender_->port().unreleased(0), 0U);
}

}  // namespace
}  // namespace asyncmesh
