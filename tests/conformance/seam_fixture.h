// Fixture of the tests at the seam: a pair with links of epoch 1, and the loop that moves frames
// over a lane.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "tests/conformance/seam_pair.h"

namespace asyncmesh::conformance {

inline constexpr LaneGeometry kSmallLane{4, 1016};

class SeamTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    pair_ = std::make_unique<SeamPair>(GetParam());
    ASSERT_TRUE(pair_->ready().ok()) << pair_->ready().text();
    const Status opened = pair_->open_links(1);
    ASSERT_TRUE(opened.ok()) << opened.text();
  }

  // Side 0 writes. Fails the test and returns null if it cannot be opened.
  std::unique_ptr<SeamLane> open_lane(const LaneGeometry& geometry = kSmallLane, Sequence first = 1,
                                      uint64_t key = 1) {
    auto lane = pair_->open_lane(0, next_lane_++, geometry, first, key);
    EXPECT_TRUE(lane.ok()) << lane.status().text();
    return lane.ok() ? std::move(lane.value()) : nullptr;
  }

  // Sends frames up to `last`, with the reader always holding on to `keep` of them; then all are
  // released and credited.
  void stream(SeamLane& lane, Sequence last, uint32_t keep = 0) {
    ASSERT_TRUE(pair_->pump_until([&] {
      lane.writer.send_up_to(last);
      lane.reader.take(lane.reader.received() == last ? 0 : keep);
      return lane.writer.credit().released == last && lane.writer.sent() == last;
    })) << "stuck: sent "
        << lane.writer.sent() << ", received " << lane.reader.received() << ", credit "
        << lane.writer.credit().released;
    EXPECT_EQ(lane.error(), "");
  }

  std::unique_ptr<SeamPair> pair_;
  LaneId next_lane_ = 1;
};

}  // namespace asyncmesh::conformance
