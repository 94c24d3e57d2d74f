// The hot path allocates nothing: a thousand frames through two ports, there and back.
#include <gtest/gtest.h>

#include "lane/port.h"
#include "support/alloc_guard.h"
#include "support/fake_mesh.h"

namespace asyncmesh {
namespace {

using test::AllocGuard;
using test::FakeMesh;
using test::QueuedSubmitter;

class AllocationTest : public testing::Test {
 protected:
  AllocationTest() {
    mesh_.attach(0, a_);
    mesh_.attach(1, b_);
    mesh_.connect();
  }
  // Everything that happens to one frame each way; returns the frames that arrived.
  uint32_t exchange() {
    for (Port* port : {&a_, &b_}) {
      Port::Claim claim;
      if (port->claim(kAllLanes, &claim) != Code::kOk) continue;
      port->commit(claim, kAllLanes, 1000, 1);
    }
    queue_.drain_st();
    mesh_.pump();
    uint32_t frames = 0;
    Received received;
    for (Port* port : {&a_, &b_}) {
      for (; port->receive(&received) == Code::kOk; ++frames) port->release(received);
    }
    queue_.drain_st();
    mesh_.pump();
    return frames;
  }

  FakeClock clock_;
  QueuedSubmitter queue_{128};
  Port a_{{{1}, {1}, 8, 1000, true}, clock_, queue_};
  Port b_{{{0}, {0}, 8, 1000, true}, clock_, queue_};
  FakeMesh mesh_{false};
};

TEST_F(AllocationTest, TheGuardCounts) {
  const AllocGuard guard;
  const auto number = std::make_unique<int>(1);
  EXPECT_NE(number, nullptr);
  EXPECT_GE(guard.in_thread(), 1U);
  EXPECT_GE(guard.in_process(), 1U);
}

TEST_F(AllocationTest, NoneForAThousandFramesAfterWarmUp) {
  for (int i = 0; i < 100; ++i) ASSERT_EQ(exchange(), 2U);
  const AllocGuard guard;
  uint32_t frames = 0;
  for (int i = 0; i < 1000; ++i) frames += exchange();
  EXPECT_EQ(guard.in_thread(), 0U);
  EXPECT_EQ(frames, 2000U);
}

TEST_F(AllocationTest, NoneFromTheFirstFrameOn) {
  const AllocGuard guard;
  const uint32_t frames = exchange();
  EXPECT_EQ(guard.in_thread(), 0U);
  EXPECT_EQ(frames, 2U);
}

TEST_F(AllocationTest, NoneWhileBlockedOrLosingAPeer) {
  Port::Claim claim;
  while (a_.claim(0, &claim) == Code::kOk) a_.commit(claim, 0, 10, 1);
  queue_.drain_st();
  const AllocGuard guard;
  const Code blocked = a_.claim(0, &claim);
  a_.fail_peer_st(1);
  const Code lost = a_.claim(0, &claim);
  EXPECT_EQ(guard.in_thread(), 0U);
  EXPECT_EQ(blocked, Code::kAgain);
  EXPECT_EQ(lost, Code::kPeerLost);
}

}  // namespace
}  // namespace asyncmesh
