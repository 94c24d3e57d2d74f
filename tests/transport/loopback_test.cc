#include "transport/loopback/loopback.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "support/alloc_guard.h"
#include "tests/conformance/seam_pair.h"

namespace asyncmesh::conformance {
namespace {

Backend loopback() {
  Backend backend;
  backend.name = "loopback";
  backend.make = [](const Clock&, uint32_t) -> Result<std::unique_ptr<Transport>> {
    return transport::make_loopback();
  };
  return backend;
}

class LoopbackTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(pair_.open_links(1).ok()); }

  SeamPair pair_{loopback()};
};

TEST_F(LoopbackTest, RefusesAnAddressOfAnotherKind) {
  const std::vector<std::byte> address(pair_.transport(1).address().size());
  auto link = pair_.transport(0).open_link(1, 2, address, pair_.downs(0));
  EXPECT_EQ(link.code(), Code::kInvalidArgument);
}

TEST_F(LoopbackTest, RefusesAContextThatIsGone) {
  auto gone = transport::make_loopback();
  const auto span = gone->address();
  const transport::Bytes address(span.begin(), span.end());
  gone.reset();
  auto link = pair_.transport(0).open_link(1, 2, address, pair_.downs(0));
  EXPECT_EQ(link.code(), Code::kLinkError);
}

TEST_F(LoopbackTest, RefusesTheSameEndTwice) {
  auto link = pair_.transport(0).open_link(1, 1, pair_.transport(1).address(), pair_.downs(0));
  EXPECT_EQ(link.code(), Code::kInvalidState);
}

TEST_F(LoopbackTest, RefusesAForkedChild) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto link = pair_.transport(0).open_link(1, 2, pair_.transport(1).address(), pair_.downs(0));
    ::_exit(link.code() == Code::kUnsupported ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(LoopbackTest, RefusesAnOfferWithAnotherGeometry) {
  SeamReader reader(1, {4, 1016}, 1);
  SeamWriter writer(1, {4, 1016}, 1);
  auto inbound = pair_.link(1).open_inbound(1, {4, 1016}, 1, reader);
  ASSERT_TRUE(inbound.ok());
  auto outbound = pair_.link(0).open_outbound(1, {8, 1016}, inbound.value()->offer(), writer);
  EXPECT_EQ(outbound.code(), Code::kMismatch);
}

TEST_F(LoopbackTest, RefusesAnOfferOfAnEarlierEpoch) {
  SeamReader reader(1, {4, 1016}, 1);
  SeamWriter writer(1, {4, 1016}, 1);
  auto inbound = pair_.link(1).open_inbound(1, {4, 1016}, 1, reader);
  ASSERT_TRUE(inbound.ok());
  pair_.close_link(0);
  pair_.close_link(1);
  ASSERT_TRUE(pair_.open_links(2).ok());
  auto outbound = pair_.link(0).open_outbound(1, {4, 1016}, inbound.value()->offer(), writer);
  EXPECT_EQ(outbound.code(), Code::kLinkError);
}

TEST_F(LoopbackTest, ALaneHasOneWriter) {
  auto lane = pair_.open_lane(0, 1, {4, 1016});
  ASSERT_TRUE(lane.ok());
  SeamWriter second(1, {4, 1016}, 1);
  auto outbound =
      pair_.link(0).open_outbound(1, {4, 1016}, lane.value()->reader.inbound().offer(), second);
  EXPECT_EQ(outbound.code(), Code::kLinkError);
}

TEST_F(LoopbackTest, RefusesBadGeometry) {
  SeamReader reader(1, {4, 1016}, 1);
  for (const LaneGeometry geometry :
       {LaneGeometry{0, 56}, {1, 56}, {3, 56}, {4, 0}, {4, 64}, {4, 100}}) {
    EXPECT_EQ(pair_.link(1).open_inbound(1, geometry, 1, reader).code(), Code::kInvalidArgument)
        << geometry.slots << " x " << geometry.slot_bytes;
  }
}

TEST_F(LoopbackTest, RefusesAFrameAboveTheSlot) {
  auto lane = pair_.open_lane(0, 1, {4, 1016});
  ASSERT_TRUE(lane.ok());
  SeamReader reader(1, {4, 56}, 1);
  SeamWriter writer(1, {4, 56}, 1);
  auto inbound = pair_.link(1).open_inbound(2, {4, 56}, 1, reader);
  ASSERT_TRUE(inbound.ok());
  auto outbound = pair_.link(0).open_outbound(2, {4, 56}, inbound.value()->offer(), writer);
  ASSERT_TRUE(outbound.ok());
  const std::vector<std::byte> large(65);
  EXPECT_EQ(outbound.value()->send(1, {large.data(), 65, 0}), Code::kTooLarge);
}

TEST_F(LoopbackTest, SendFailsAfterTheLinkIsDown) {
  auto lane = pair_.open_lane(0, 1, {4, 1016});
  ASSERT_TRUE(lane.ok());
  pair_.close_link(1);
  pair_.pump_side(0, 1);
  ASSERT_EQ(pair_.downs(0).downs.size(), 1u);
  EXPECT_EQ(pair_.downs(0).downs[0].code, Code::kLinkError);
  EXPECT_EQ(lane.value()->writer.send(10), Code::kLinkError);
}

TEST_F(LoopbackTest, FramesCommittedBeforeTheCloseComeBeforeTheLinkIsDown) {
  auto lane = pair_.open_lane(0, 1, {4, 1016});
  ASSERT_TRUE(lane.ok());
  lane.value()->writer.send_up_to(4);
  lane.value()->writer.close();
  pair_.close_link(0);
  pair_.pump_side(1, 1);
  EXPECT_EQ(lane.value()->reader.received(), 4u);
  EXPECT_EQ(pair_.downs(1).downs.size(), 1u);
}

TEST_F(LoopbackTest, AContextMayLinkToItself) {
  Transport& self = pair_.transport(0);
  LinkRecorder downs;
  auto first = self.open_link(0, 7, self.address(), downs);
  auto second = self.open_link(0, 7, self.address(), downs);
  ASSERT_TRUE(first.ok() && second.ok());
  SeamReader reader(1, {4, 1016}, 1);
  SeamWriter writer(1, {4, 1016}, 1);
  auto inbound = second.value()->open_inbound(1, {4, 1016}, 1, reader);
  ASSERT_TRUE(inbound.ok());
  auto outbound = first.value()->open_outbound(1, {4, 1016}, inbound.value()->offer(), writer);
  ASSERT_TRUE(outbound.ok());
  writer.open(std::move(outbound.value()));
  EXPECT_EQ(writer.send_up_to(3), 3u);
  self.progress();
  EXPECT_EQ(reader.received(), 3u);
}

TEST_F(LoopbackTest, NothingIsAllocatedPerFrame) {
  auto opened = pair_.open_lane(0, 1, {4, 1016});
  ASSERT_TRUE(opened.ok());
  SeamLane& lane = *opened.value();
  const auto exchange = [&](Sequence last) {
    while (lane.writer.credit().released < last) {
      lane.writer.send_up_to(last);
      pair_.transport(1).progress();
      lane.reader.take(0);
      pair_.transport(0).progress();
    }
  };
  exchange(100);
  const test::AllocGuard guard;
  exchange(1100);
  EXPECT_EQ(guard.in_thread(), 0u);
}

// A sleeper with no backstop: it hangs (and fails by the deadline) if a single wake-up is lost.
TEST_F(LoopbackTest, NoWakeUpIsLostBetweenTwoThreads) {
  auto opened = pair_.open_lane(0, 1, {4, 248});
  ASSERT_TRUE(opened.ok());
  SeamLane& lane = *opened.value();
  constexpr Sequence kLast = 3000;
  std::atomic<uint32_t> timeouts{0};
  const auto sleep = [&](Transport& transport) {
    if (!transport.arm()) return;
    pollfd waiter{transport.event_fd(), POLLIN, 0};
    if (::poll(&waiter, 1, 5000) == 0) timeouts.fetch_add(1);
  };
  std::thread reader([&] {
    while (lane.reader.released() < kLast && timeouts.load() == 0) {
      if (pair_.transport(1).progress() + lane.reader.take(0) == 0) sleep(pair_.transport(1));
    }
  });
  while (lane.writer.credit().released < kLast && timeouts.load() == 0) {
    const uint32_t sent = lane.writer.send_up_to(kLast);
    if (sent + pair_.transport(0).progress() == 0) sleep(pair_.transport(0));
  }
  reader.join();
  EXPECT_EQ(timeouts.load(), 0u);
  EXPECT_EQ(lane.error(), "");
}

}  // namespace
}  // namespace asyncmesh::conformance
