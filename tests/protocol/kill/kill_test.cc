// A peer is killed or stopped at every step of a frame's life. This process must neither end nor
// hang, must see only whole frames in their order, each once, and its transport must serve the next
// peer as if nothing had happened.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "base/random.h"
#include "tests/protocol/kill/kill_lane.h"
#include "tests/protocol/kill/peer_process.h"

namespace asyncmesh::protocol {
namespace {

using transport::FrameStep;
using transport::Sequence;

constexpr Nanoseconds kSecond = 1'000'000'000;

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

struct Case {
  std::string engine;
  uint32_t slot_bytes = 504;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.engine << "_" << each.slot_bytes; }

class Kill : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto transport = make_engine(GetParam().engine, clock_, nullptr);
    ASSERT_TRUE(transport.ok()) << transport.status().text();
    transport_ = std::move(transport.value());
  }

  PeerOrders orders(Role role) const {
    PeerOrders orders;
    std::strncpy(orders.engine, GetParam().engine.c_str(), sizeof(orders.engine) - 1);
    orders.role = role;
    orders.slot_bytes = GetParam().slot_bytes;
    return orders;
  }

  PeerOrders ending(Role role, FrameStep step, Sequence sequence) const {
    PeerOrders given = orders(role);
    given.ends = 1;
    given.step = step;
    given.sequence = sequence;
    return given;
  }

  // This side of a lane whose other side plays the part that `theirs` says.
  PeerOrders mirrored(const PeerOrders& theirs) const {
    PeerOrders ours = theirs;
    ours.role = theirs.role == Role::kWriter ? Role::kReader : Role::kWriter;
    return ours;
  }

  bool run(KillLane& lane, const std::function<bool()>& done, Nanoseconds timeout = 20 * kSecond) {
    const Nanoseconds deadline = deadline_after(clock_, timeout);
    while (!done()) {
      if (clock_.now() > deadline) return false;
      lane.step();
    }
    return true;
  }

  // The transport is as good as new: another peer writes 30 frames to us.
  void expect_service() {
    const PeerOrders theirs = orders(Role::kWriter);
    PeerProcess peer(theirs);
    KillLane lane(*transport_, mirrored(theirs), peer.fd());
    ASSERT_TRUE(lane.introduce());
    ASSERT_TRUE(lane.open()) << lane.error();
    EXPECT_TRUE(run(lane, [&] { return lane.received() >= 30; })) << lane.received();
    EXPECT_EQ(lane.error(), "");
  }

  // The peer ends at `step` of frame 21 (or of the first one after it that has the step).
  Sequence received_from_writer_that_ends_at(FrameStep step) {
    const PeerOrders theirs = ending(Role::kWriter, step, kLast);
    PeerProcess peer(theirs);
    KillLane lane(*transport_, mirrored(theirs), peer.fd());
    EXPECT_TRUE(lane.introduce());
    EXPECT_TRUE(lane.open()) << lane.error();
    EXPECT_TRUE(run(lane, [&] { return peer.ended(); }));
    EXPECT_TRUE(peer.killed());
    EXPECT_TRUE(run(lane, [&] { return lane.down(); })) << "the loss of the peer was not noticed";
    EXPECT_EQ(lane.downs(), 1u);
    EXPECT_EQ(lane.error(), "");
    const Nanoseconds before = clock_.now();
    lane.close();
    EXPECT_LT(clock_.now() - before, kSecond);
    return lane.received();
  }

  bool is_rma() const { return GetParam().engine.starts_with("rma"); }

  static constexpr Sequence kLast = 21;
  SteadyClock clock_;
  std::unique_ptr<transport::Transport> transport_;
};

TEST_P(Kill, WriterBeforeItsFrame) {
  EXPECT_LT(received_from_writer_that_ends_at(FrameStep::kBeforeFrame), kLast);
  expect_service();
}

TEST_P(Kill, WriterInsideItsFrame) {
  if (GetParam().engine != "rma_direct") return;  // the others hand whole frames to UCX
  EXPECT_EQ(received_from_writer_that_ends_at(FrameStep::kInsideFrame), kLast - 1);
  expect_service();
}

TEST_P(Kill, WriterAfterItsFrame) {
  if (GetParam().engine == "rma_puts") return;  // puts its commit in the same step
  const Sequence received = received_from_writer_that_ends_at(FrameStep::kAfterFrame);
  if (is_rma()) {
    EXPECT_EQ(received, kLast - 1);
  } else {
    EXPECT_LE(received, kLast);
  }
  expect_service();
}

TEST_P(Kill, WriterAfterItsCommit) {
  if (!is_rma()) return;  // a tagged frame has no commit of its own
  EXPECT_EQ(received_from_writer_that_ends_at(FrameStep::kAfterCommit), kLast);
  expect_service();
}

// Whether UCX notices the loss is left open: over shared memory it does not look after a peer that
// has never answered. The control socket tells of it at once.
TEST_P(Kill, ReaderAtEachStepOfReleaseAndCredit) {
  for (const FrameStep step : {FrameStep::kBeforeRelease, FrameStep::kAfterRelease,
                               FrameStep::kBeforeCredit, FrameStep::kAfterCredit}) {
    const PeerOrders theirs = ending(Role::kReader, step, 2);
    PeerProcess peer(theirs);
    KillLane lane(*transport_, mirrored(theirs), peer.fd());
    ASSERT_TRUE(lane.introduce());
    ASSERT_TRUE(lane.open()) << lane.error();
    EXPECT_TRUE(run(lane, [&] { return peer.ended(); }));
    lane.step();
    EXPECT_EQ(lane.error(), "");
    lane.close();
  }
  expect_service();
}

TEST_P(Kill, WriterAtAnyInstant) {
  CounterRandom random(17, 0);
  for (int round = 0; round < 6; ++round) {
    const PeerOrders theirs = orders(Role::kWriter);
    PeerProcess peer(theirs);
    KillLane lane(*transport_, mirrored(theirs), peer.fd());
    ASSERT_TRUE(lane.introduce());
    ASSERT_TRUE(lane.open()) << lane.error();
    const Sequence enough = 1 + random.below(300);
    ASSERT_TRUE(run(lane, [&] { return lane.received() >= enough; }));
    peer.signal(SIGKILL);
    EXPECT_TRUE(run(lane, [&] { return peer.ended(); }));
    lane.step();
    EXPECT_EQ(lane.error(), "");
    lane.close();
  }
  expect_service();
}

// Neither a peer that dies while it connects, nor one that dies later.
TEST_P(Kill, DeadPeersLeaveNothingBehind) {
  const auto lose_a_reader = [&](Sequence at) {
    const PeerOrders theirs = ending(Role::kReader, FrameStep::kBeforeRelease, at);
    PeerProcess peer(theirs);
    KillLane lane(*transport_, mirrored(theirs), peer.fd());
    ASSERT_TRUE(lane.introduce());
    ASSERT_TRUE(lane.open()) << lane.error();
    EXPECT_TRUE(run(lane, [&] { return peer.ended(); }));
    lane.close();
    for (int round = 0; round < 5000; ++round) transport_->progress();
  };
  lose_a_reader(1);
  const size_t before = open_descriptors();
  for (int round = 0; round < 3; ++round) {
    lose_a_reader(1);
    lose_a_reader(20);
  }
  EXPECT_LE(open_descriptors(), before);
}

// The peer stops, is given up, and resumes: what it still writes into its old epoch must not be
// seen, and in the new one every frame comes once.
TEST_P(Kill, AWriterThatResumesHarmsNobody) {
  const PeerOrders theirs = orders(Role::kWriter);
  PeerProcess peer(theirs);
  KillLane lane(*transport_, mirrored(theirs), peer.fd());
  ASSERT_TRUE(lane.introduce());
  ASSERT_TRUE(lane.open()) << lane.error();
  for (int round = 0; round < 3; ++round) {
    const Sequence before = lane.received();
    ASSERT_TRUE(run(lane, [&] { return lane.received() >= before + 20; })) << lane.error();
    peer.signal(SIGSTOP);
    const Nanoseconds stopped = clock_.now();
    ASSERT_TRUE(run(lane, [&] { return clock_.now() - stopped > kSecond / 5; }));
    lane.close();
    const Sequence closed = lane.received();
    peer.signal(SIGCONT);
    const Nanoseconds resumed = clock_.now();
    while (clock_.now() - resumed < kSecond / 20) transport_->progress();
    EXPECT_EQ(lane.received(), closed);
    ASSERT_TRUE(lane.open()) << lane.error();
  }
  const Sequence before = lane.received();
  EXPECT_TRUE(run(lane, [&] { return lane.received() >= before + 20; })) << lane.error();
  EXPECT_EQ(lane.error(), "");
}

INSTANTIATE_TEST_SUITE_P(Protocol, Kill,
                         testing::Values(Case{"tag_tcp", 504}, Case{"tag_tcp", 262136},
                                         Case{"tag_shm", 504}, Case{"tag_shm", 262136},
                                         Case{"rma_direct", 504}, Case{"rma_direct", 262136},
                                         Case{"rma_puts", 504}),
                         [](const auto& test) {
                           return test.param.engine + "_" + std::to_string(test.param.slot_bytes);
                         });

}  // namespace
}  // namespace asyncmesh::protocol

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--peer")
    return asyncmesh::protocol::run_peer(std::stoi(argv[2]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
