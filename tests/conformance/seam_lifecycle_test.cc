// Closing in every order: stop, link, lane, epoch, transport; with frames in flight and slots lent.
#include <vector>

#include "base/random.h"
#include "tests/conformance/seam_fixture.h"

namespace asyncmesh::conformance {
namespace {

class SeamLifecycle : public SeamTest {
 protected:
  // All slots of `lane` hold a frame at the reader.
  void fill(SeamLane& lane) {
    lane.writer.send_up_to(kSmallLane.slots);
    ASSERT_TRUE(pair_->pump_until([&] { return lane.reader.received() == kSmallLane.slots; }));
  }
  void expect_lent_slots_intact(const SeamLane& lane) {
    for (const Arrival& arrival : lane.reader.arrivals()) {
      EXPECT_TRUE(
          lane.reader.intact(arrival, frame_length(1, arrival.sequence, kSmallLane.slot_bytes)));
    }
  }
};

TEST_P(SeamLifecycle, NothingComesAfterStopAndSlotsStay) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  lane->writer.send_up_to(2);
  ASSERT_TRUE(pair_->pump_until([&] { return lane->reader.received() == 2; }));
  lane->reader.inbound().stop();
  lane->writer.send_up_to(4);
  pair_->pump(100);
  EXPECT_EQ(lane->reader.received(), 2u);
  expect_lent_slots_intact(*lane);
}

TEST_P(SeamLifecycle, NothingComesAfterTheOwnLinkWasClosed) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  lane->writer.send_up_to(2);
  ASSERT_TRUE(pair_->pump_until([&] { return lane->reader.received() == 2; }));
  // A frame and a credit are on their way to an end that closes.
  lane->reader.discard();
  lane->writer.send_up_to(4);
  const Credit before = lane->writer.credit();
  pair_->close_link(0);
  pair_->close_link(1);
  pair_->pump(100);
  EXPECT_EQ(lane->reader.received(), 2u);
  EXPECT_EQ(lane->writer.credit(), before);
  EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamLifecycle, LentSlotsOutliveTheLinkOfTheReader) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  fill(*lane);
  lane->reader.inbound().stop();
  pair_->close_link(1);
  pair_->pump(100);
  expect_lent_slots_intact(*lane);
  lane->reader.close();
}

TEST_P(SeamLifecycle, LentSlotsOutliveTheWriter) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  fill(*lane);
  lane->writer.close();
  pair_->destroy_transport(0);
  pair_->pump_side(1, 100);
  expect_lent_slots_intact(*lane);
}

TEST_P(SeamLifecycle, AWriterThatClosesLeavesWholeFramesOrNone) {
  auto lane = open_lane({8, 64 * 1024 - 8});
  ASSERT_NE(lane, nullptr);
  lane->writer.send_up_to(8);
  lane->writer.close();
  pair_->close_link(0);
  pair_->pump(200);
  lane->reader.take(0);
  EXPECT_LE(lane->reader.received(), 8u);
  EXPECT_EQ(lane->reader.error(), "");
}

TEST_P(SeamLifecycle, AReaderClosesUnderAWriterThatGoesOn) {
  auto lane = open_lane({8, 64 * 1024 - 8});
  ASSERT_NE(lane, nullptr);
  lane->writer.send_up_to(4);
  pair_->pump(2);
  lane->reader.close();
  pair_->close_link(1);
  lane->writer.send_up_to(8);
  pair_->pump(200);
  lane->writer.close();
  pair_->close_link(0);
  pair_->pump(100);
  EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamLifecycle, ANewEpochDeliversNothingOld) {
  auto old = open_lane(kSmallLane, 1, 1);
  ASSERT_NE(old, nullptr);
  old->writer.send_up_to(4);  // in flight, never received
  old->writer.close();
  old->reader.close();
  pair_->close_link(0);
  pair_->close_link(1);
  const Status reopened = pair_->open_links(2);
  ASSERT_TRUE(reopened.ok()) << reopened.text();
  // The same lane number and the same sequences, with other contents.
  auto lane = pair_->open_lane(0, 1, kSmallLane, 1, 99);
  ASSERT_TRUE(lane.ok()) << lane.status().text();
  pair_->pump(100);
  EXPECT_EQ(lane.value()->reader.received(), 0u);
  stream(*lane.value(), 40);
}

TEST_P(SeamLifecycle, ALaneResumesInAnyNumberOfEpochs) {
  CounterRandom random(3);
  Sequence first = 1;
  for (Epoch epoch = 2; epoch < 14; ++epoch) {
    // One side closes before the other, now this one, now that one, while the other goes on.
    const uint32_t early = static_cast<uint32_t>(random.below(2));
    pair_->close_link(early);
    pair_->pump(static_cast<uint32_t>(random.below(4)));
    pair_->close_link(1 - early);
    const Status reopened = pair_->open_links(epoch);
    ASSERT_TRUE(reopened.ok()) << reopened.text();
    auto lane = pair_->open_lane(0, 1, kSmallLane, first, epoch);
    ASSERT_TRUE(lane.ok()) << lane.status().text();
    stream(*lane.value(), first + random.below(20));
    first = lane.value()->writer.next();
    lane.value()->writer.send_up_to(first + random.below(4));
    pair_->pump(static_cast<uint32_t>(random.below(3)));
    lane.value()->reader.take(0);
    EXPECT_EQ(lane.value()->error(), "");
  }
}

TEST_P(SeamLifecycle, AWriterSurvivesTheEndOfTheReadersTransport) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  stream(*lane, 10);
  lane->reader.close();
  pair_->destroy_transport(1);
  lane->writer.send_up_to(14);
  pair_->pump_side(0, 200);
  if (GetParam().reports_loss) {
    ASSERT_TRUE(pair_->pump_until([&] { return !pair_->downs(0).downs.empty(); }));
    EXPECT_EQ(pair_->downs(0).downs[0].peer, 1u);
    EXPECT_EQ(pair_->downs(0).downs[0].epoch, 1u);
  }
  EXPECT_LE(pair_->downs(0).downs.size(), 1u);
  lane->writer.close();
  pair_->close_link(0);
}

TEST_P(SeamLifecycle, AReaderSurvivesTheEndOfTheWritersTransport) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  stream(*lane, 10);
  lane->writer.send_up_to(14);
  lane->writer.close();
  pair_->destroy_transport(0);
  pair_->pump_side(1, 200);
  lane->reader.take(0);
  (void)lane->reader.inbound().send_credit({14, 14, 14});
  pair_->pump_side(1, 200);
  if (GetParam().reports_loss) {
    ASSERT_TRUE(pair_->pump_until([&] { return !pair_->downs(1).downs.empty(); }));
    EXPECT_EQ(pair_->downs(1).downs[0].epoch, 1u);
  }
  EXPECT_LE(pair_->downs(1).downs.size(), 1u);
  EXPECT_EQ(lane->reader.error(), "");
}

TEST_P(SeamLifecycle, ForeignOffersAndAddressesAreRefused) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  const auto offer = lane->reader.inbound().offer();
  const auto address = pair_->transport(1).address();
  for (const size_t length : {size_t{0}, size_t{1}, offer.size() - 1}) {
    EXPECT_FALSE(
        pair_->link(0).open_outbound(9, kSmallLane, offer.first(length), lane->writer).ok())
        << length;
  }
  for (const size_t length : {size_t{0}, size_t{1}, address.size() - 1}) {
    EXPECT_FALSE(pair_->transport(0).open_link(5, 1, address.first(length), pair_->downs(0)).ok())
        << length;
  }
  stream(*lane, 10);
}

INSTANTIATE_TEST_SUITE_P(Conformance, SeamLifecycle, testing::ValuesIn(lossless_backends()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace asyncmesh::conformance
