// The application and the progress owner on threads of their own: what a sanitizer should look at.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "lane/port.h"
#include "support/fake_mesh.h"

namespace asyncmesh {
namespace {

using test::FakeMesh;
using test::QueuedSubmitter;

constexpr uint64_t kFrames = 20'000;

struct Stream {
  FakeClock clock;
  QueuedSubmitter queue{256};
  Port writer{{{1}, {}, 4, 64, true}, clock, queue};
  Port reader{{{}, {0}, 4, 64}, clock, queue};
  std::atomic<bool> stop{false};

  // Until the lane dies, or every frame is posted.
  uint64_t post_all() {
    uint64_t posted = 0;
    while (posted < kFrames) {
      Port::Claim claim;
      const Code code = writer.claim(0, &claim);
      if (code == Code::kPeerLost) break;
      if (code == Code::kAgain) {
        std::this_thread::yield();
        continue;
      }
      std::memcpy(claim.payload, &posted, sizeof posted);
      std::memset(claim.meta, static_cast<int>(posted & 0x7F), kMetaBytes);
      writer.commit(claim, 0, sizeof posted, 1);
      ++posted;
    }
    return posted;
  }

  // Holds two frames at a time, so that slots are released out of step with takes.
  uint64_t take_all() {
    uint64_t taken = 0;
    bool holding = false;
    Received held{};
    while (taken < kFrames) {
      const bool dead = reader.inbound_state(0) == LaneState::kDead;
      Received received;
      if (reader.receive(&received) != Code::kOk) {
        if (dead) break;
        std::this_thread::yield();
        continue;
      }
      uint64_t value = 0;
      std::memcpy(&value, received.payload, sizeof value);
      EXPECT_EQ(value, taken);
      EXPECT_EQ(received.header.meta[0], static_cast<std::byte>(taken & 0x7F));
      ++taken;
      if (holding) reader.release(held);
      held = received;
      holding = true;
    }
    if (holding) reader.release(held);
    return taken;
  }
};

TEST(PortThreads, CarryEveryFrameInOrderThroughResets) {
  Stream stream;
  FakeMesh mesh(false);
  mesh.attach(0, stream.writer);
  mesh.attach(1, stream.reader);
  mesh.connect();
  std::thread owner([&] {
    for (uint32_t round = 1; !stream.stop.load(std::memory_order_acquire); ++round) {
      stream.queue.drain_st();
      if (round % 1024 == 0) {
        mesh.cut_all();
        mesh.connect();
      }
      if (mesh.pump() == 0) std::this_thread::yield();
    }
  });
  uint64_t taken = 0;
  std::thread reader([&] { taken = stream.take_all(); });
  EXPECT_EQ(stream.post_all(), kFrames);
  reader.join();
  stream.stop.store(true, std::memory_order_release);
  owner.join();
  EXPECT_EQ(taken, kFrames);
  EXPECT_EQ(mesh.violations(), 0U);
  EXPECT_FALSE(stream.queue.overflowed());
}

TEST(PortThreads, BothEndsSeeALossAndEveryFrameBeforeItIsTaken) {
  Stream stream;
  FakeMesh mesh(false);
  mesh.attach(0, stream.writer);
  mesh.attach(1, stream.reader);
  mesh.connect();
  uint64_t published = 0;
  std::thread owner([&] {
    for (;;) {
      stream.queue.drain_st();
      if (mesh.pump() == 0) std::this_thread::yield();
      published = stream.reader.reader_st(0).counters_st().frames;
      if (published > kFrames / 2) break;
    }
    stream.writer.fail_peer_st(1);
    stream.reader.fail_peer_st(0);
    while (!stream.stop.load(std::memory_order_acquire)) {
      if (stream.queue.drain_st() == 0) std::this_thread::yield();
    }
  });
  uint64_t taken = 0;
  std::thread reader([&] { taken = stream.take_all(); });
  EXPECT_GE(stream.post_all(), kFrames / 2);
  reader.join();
  stream.stop.store(true, std::memory_order_release);
  owner.join();
  EXPECT_EQ(taken, published);
}

}  // namespace
}  // namespace asyncmesh
