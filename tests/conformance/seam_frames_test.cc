// What arrives is what was sent: sizes, slots, order, laps, credit, and lanes that keep apart.
#include <set>
#include <vector>

#include "tests/conformance/seam_fixture.h"

namespace asyncmesh::conformance {
namespace {

class SeamFrames : public SeamTest {};

TEST_P(SeamFrames, AddressIsConstant) {
  const auto address = pair_->transport(0).address();
  ASSERT_FALSE(address.empty());
  EXPECT_EQ(address.data(), pair_->transport(0).address().data());
  EXPECT_FALSE(pair_->link(0).describe().empty());
}

TEST_P(SeamFrames, EverySizeArrivesWhole) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  for (const uint32_t bytes : {0u, 1u, 7u, 8u, 63u, 64u, 80u, 81u, 1015u, 1016u}) {
    ASSERT_TRUE(pair_->pump_until([&] { return lane->writer.can_send(); }));
    ASSERT_EQ(lane->writer.send(bytes), Code::kOk);
    ASSERT_TRUE(pair_->pump_until([&] { return !lane->reader.arrivals().empty(); })) << bytes;
    EXPECT_TRUE(lane->reader.intact(lane->reader.arrivals().front(), bytes)) << bytes;
    lane->reader.discard();
  }
  EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamFrames, AllSlotsHoldFramesAtOnce) {
  auto lane = open_lane({8, 4088});
  ASSERT_NE(lane, nullptr);
  EXPECT_EQ(lane->writer.send_up_to(100), 8u);
  ASSERT_TRUE(pair_->pump_until([&] { return lane->reader.arrivals().size() == 8; }));
  std::set<const std::byte*> slots;
  for (const Arrival& arrival : lane->reader.arrivals()) {
    EXPECT_TRUE(lane->reader.intact(arrival, frame_length(1, arrival.sequence, 4088)))
        << arrival.sequence;
    slots.insert(arrival.slot);
  }
  EXPECT_EQ(slots.size(), 8u);
  EXPECT_FALSE(lane->writer.can_send());
  EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamFrames, OrderHoldsOverManyLaps) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  stream(*lane, 400);
}

TEST_P(SeamFrames, OrderHoldsWithAllSlotsButOneLent) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  stream(*lane, 100, 3);
}

TEST_P(SeamFrames, TwoSlotsAreEnough) {
  auto lane = open_lane({2, 120});
  ASSERT_NE(lane, nullptr);
  stream(*lane, 100);
}

TEST_P(SeamFrames, LargeFramesArriveWhole) {
  auto lane = open_lane({4, (1 << 20) - 8});
  ASSERT_NE(lane, nullptr);
  stream(*lane, 16);
}

TEST_P(SeamFrames, SequencesPassTheirLow32Bits) {
  const Sequence first = (Sequence{1} << 32) - 3;
  auto lane = open_lane(kSmallLane, first);
  ASSERT_NE(lane, nullptr);
  stream(*lane, first + 20);
}

TEST_P(SeamFrames, NothingComesThatWasNotSent) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  stream(*lane, 6);
  pair_->pump(200);
  EXPECT_EQ(lane->reader.received(), 6u);
  EXPECT_TRUE(lane->reader.arrivals().empty());
  EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamFrames, TheNewestCreditArrives) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  lane->writer.send_up_to(4);
  ASSERT_TRUE(pair_->pump_until([&] { return lane->reader.received() == 4; }));
  // Received, taken and released differ, and several credits follow each other as fast as they are
  // accepted.
  const std::vector<Credit> credits{{2, 1, 0}, {3, 1, 1}, {4, 2, 1}, {4, 3, 1}};
  for (const Credit& credit : credits) {
    ASSERT_TRUE(
        pair_->pump_until([&] { return lane->reader.inbound().send_credit(credit) == Code::kOk; }));
  }
  ASSERT_TRUE(pair_->pump_until([&] { return lane->writer.credit() == credits.back(); }));
  EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamFrames, LanesKeepApart) {
  std::vector<std::unique_ptr<SeamLane>> lanes;
  for (uint32_t i = 0; i < 4; ++i) {
    const LaneGeometry geometry{2u << (i % 3), 256u * (i + 1) - 8u};
    auto lane = pair_->open_lane(i % 2, static_cast<LaneId>(100 + i / 2), geometry, 1 + i, 50 + i);
    ASSERT_TRUE(lane.ok()) << lane.status().text();
    lanes.push_back(std::move(lane.value()));
  }
  ASSERT_TRUE(pair_->pump_until([&] {
    bool done = true;
    for (auto& lane : lanes) {
      lane->writer.send_up_to(100);
      lane->reader.take(0);
      done = done && lane->writer.credit().released == 100;
    }
    return done;
  }));
  for (auto& lane : lanes) EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamFrames, ALaneClosesAloneAndItsNeighbourGoesOn) {
  auto first = open_lane(kSmallLane, 1, 7);
  auto second = open_lane(kSmallLane, 1, 8);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  stream(*first, 10);
  first->writer.close();
  first->reader.close();
  stream(*second, 50);
}

INSTANTIATE_TEST_SUITE_P(Conformance, SeamFrames, testing::ValuesIn(lossless_backends()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace asyncmesh::conformance
