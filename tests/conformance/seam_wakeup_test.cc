// Sleeping: after arm() returned true, the event fd becomes readable for whatever comes next.
#include <poll.h>

#include "tests/conformance/seam_fixture.h"

namespace asyncmesh::conformance {
namespace {

class SeamWakeup : public SeamTest {
 protected:
  bool has_event_fd(uint32_t side) { return pair_->transport(side).capabilities().has_event_fd; }

  // Progress of `side` until it may sleep.
  bool arm(uint32_t side) {
    const WallDeadline deadline(20 * kSecond);
    while (!pair_->transport(side).arm()) {
      if (deadline.passed()) return false;
      pair_->transport(side).progress();
    }
    return true;
  }

  // `side` sleeps on its fd, until it is readable, while the other side makes progress.
  bool woken(uint32_t side) {
    const WallDeadline deadline(20 * kSecond);
    pollfd waiter{pair_->transport(side).event_fd(), POLLIN, 0};
    while (::poll(&waiter, 1, 0) == 0) {
      if (deadline.passed()) return false;
      pair_->pump_side(1 - side, 1);
    }
    return true;
  }
};

TEST_P(SeamWakeup, WithoutAnEventFdThereIsNone) {
  for (uint32_t side = 0; side < 2; ++side) {
    EXPECT_EQ(pair_->transport(side).event_fd() >= 0, has_event_fd(side));
    if (!has_event_fd(side)) {
      EXPECT_FALSE(pair_->transport(side).arm());
    }
  }
}

TEST_P(SeamWakeup, AFrameWakesItsReader) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  for (Sequence sequence = 1; sequence <= 50; ++sequence) {
    if (has_event_fd(1)) {
      ASSERT_TRUE(arm(1));
    }
    lane->writer.send_up_to(sequence);
    if (has_event_fd(1)) {
      ASSERT_TRUE(woken(1)) << "frame " << sequence;
    }
    ASSERT_TRUE(pair_->pump_until([&] {
      lane->reader.take(0);
      return lane->writer.credit().released == sequence;
    }));
  }
  EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamWakeup, ACreditWakesItsWriter) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  for (Sequence sequence = 1; sequence <= 50; ++sequence) {
    lane->writer.send_up_to(sequence);
    ASSERT_TRUE(pair_->pump_until(
        [&] { return lane->reader.received() == sequence && lane->writer.sent() == sequence; }));
    if (has_event_fd(0)) {
      ASSERT_TRUE(arm(0));
    }
    lane->reader.take(0);
    if (has_event_fd(0)) {
      ASSERT_TRUE(woken(0)) << "credit " << sequence;
    }
    ASSERT_TRUE(pair_->pump_until([&] { return lane->writer.credit().released == sequence; }));
  }
  EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamWakeup, ArmingLateLosesNoFrame) {
  auto lane = open_lane();
  ASSERT_NE(lane, nullptr);
  for (Sequence sequence = 1; sequence <= 50; ++sequence) {
    lane->writer.send_up_to(sequence);
    pair_->pump_side(0, 5);
    // Either there is work already, or a wake-up will come.
    if (has_event_fd(1) && pair_->transport(1).arm()) {
      ASSERT_TRUE(woken(1)) << "frame " << sequence;
    }
    ASSERT_TRUE(pair_->pump_until([&] {
      lane->reader.take(0);
      return lane->writer.credit().released == sequence;
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, SeamWakeup, testing::ValuesIn(lossless_backends()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace asyncmesh::conformance
