#include "mesh/membership.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace asyncmesh::mesh {
namespace {

constexpr Nanoseconds kTimeout = 8'000;  // heartbeat 1000, tick 500, suspect 5000
using Do = Membership::Do;

std::vector<PeerInfo> peers(uint32_t world) {
  std::vector<PeerInfo> list;
  for (Rank rank = 0; rank < world; ++rank) {
    PeerInfo info;
    info.rank = rank;
    info.state = PeerState::kAlive;
    info.host = "node" + std::to_string(rank);
    info.pid = 100 + rank;
    list.push_back(info);
  }
  return list;
}

// Rank 1 of a world, driven by hand.
struct Scene {
  Nanoseconds now = 1;
  Membership membership;
  std::vector<Membership::Action> actions;

  explicit Scene(uint32_t world, bool rendezvous = true)
      : membership(1, kTimeout, peers(world), rendezvous, 1, 1) {}

  void judge(Nanoseconds step = 1) {
    now += step;
    membership.judge(now);
    auto more = membership.take_actions();
    std::move(more.begin(), more.end(), std::back_inserter(actions));
  }
  void run(Nanoseconds duration, const std::vector<Rank>& talking, bool rendezvous = true) {
    for (Nanoseconds passed = 0; passed < duration; passed += 250) {
      for (const Rank rank : talking) membership.heard(rank);
      if (rendezvous) membership.heard_rendezvous();
      judge(250);
    }
  }
  void removed(Rank rank, uint64_t epoch = 2) {
    membership.on_rendezvous_message(MeshMessage::kRemoved,
                                     encode(MembershipMessage{epoch, rank, "why"}));
  }
  size_t count(Do what, Rank rank, MeshMessage type) const {
    return static_cast<size_t>(
        std::count_if(actions.begin(), actions.end(), [&](const auto& action) {
          return action.what == what && action.rank == rank && action.type == type;
        }));
  }
  std::vector<PeerState> reports(Rank rank) const {
    std::vector<PeerState> states;
    for (const auto& action : actions) {
      if (action.what == Do::kReport && action.rank == rank) states.push_back(action.state);
    }
    return states;
  }
  size_t mesh_losses() const {
    return static_cast<size_t>(
        std::count_if(actions.begin(), actions.end(),
                      [](const auto& action) { return action.what == Do::kMeshLost; }));
  }
  size_t all_reports() const {
    return static_cast<size_t>(
        std::count_if(actions.begin(), actions.end(),
                      [](const auto& action) { return action.what == Do::kReport; }));
  }
};

using States = std::vector<PeerState>;

TEST(Membership, IsQuietAmongTheLiving) {
  Scene scene(3);
  scene.run(5 * kTimeout, {0, 2});
  EXPECT_EQ(scene.all_reports(), 0U);
  EXPECT_GE(scene.count(Do::kTellPeer, 0, MeshMessage::kHeartbeat), 39U);
  EXPECT_GE(scene.count(Do::kTellRendezvous, 0, MeshMessage::kHeartbeat), 39U);
}

TEST(Membership, SuspectsAClosedPeerAndWaitsForTheRendezvous) {
  Scene scene(3);
  scene.membership.on_peer_closed(2, "the connection was closed");
  scene.judge();
  EXPECT_EQ(scene.reports(2), States{PeerState::kSuspect});
  EXPECT_EQ(scene.count(Do::kTellRendezvous, 0, MeshMessage::kSuspect), 1U);
  scene.removed(2);
  scene.judge();
  EXPECT_EQ(scene.reports(2), (States{PeerState::kSuspect, PeerState::kLost}));
  EXPECT_EQ(scene.membership.peer(2).reason, "rank 2 (node2, pid 102): why");
  EXPECT_EQ(scene.membership.epoch(), 2U);
}

TEST(Membership, LosesAPeerOnceWhenBothSay) {
  Scene scene(3);
  scene.membership.on_peer_closed(2, "closed");
  scene.removed(2);
  scene.judge();
  scene.judge();
  EXPECT_EQ(scene.reports(2), States{PeerState::kLost});
}

TEST(Membership, LosesAClosedPeerByItselfWithoutARendezvous) {
  Scene scene(3);
  scene.membership.on_rendezvous_closed();
  scene.membership.on_peer_closed(0, "the connection was closed");
  scene.judge();
  EXPECT_EQ(scene.reports(0), States{PeerState::kLost});
  EXPECT_EQ(scene.membership.epoch(), 2U);
  scene.run(3 * kTimeout, {2}, false);
  EXPECT_EQ(scene.reports(2), States());
}

TEST(Membership, SuspectsSilenceWithinTheTimeout) {
  Scene scene(3);
  scene.run(kTimeout * 5 / 8 + 500, {0});
  EXPECT_EQ(scene.reports(2), States{PeerState::kSuspect});
  EXPECT_EQ(scene.reports(0), States());
}

TEST(Membership, TakesASuspectBackThatIsHeard) {
  Scene scene(3);
  scene.run(kTimeout * 5 / 8 + 500, {0});
  scene.membership.heard(2);
  scene.judge();
  EXPECT_EQ(scene.reports(2), (States{PeerState::kSuspect, PeerState::kAlive}));
  EXPECT_EQ(scene.count(Do::kTellRendezvous, 0, MeshMessage::kClear), 1U);
  scene.run(kTimeout * 5 / 8 + 500, {0});
  EXPECT_EQ(scene.count(Do::kTellRendezvous, 0, MeshMessage::kSuspect), 2U);
}

TEST(Membership, TellsTheRendezvousWhenSilenceTurnsOutToBeAnEnd) {
  Scene scene(3);
  scene.run(kTimeout * 5 / 8 + 500, {0});
  scene.membership.on_peer_closed(2, "reset");
  scene.judge();
  EXPECT_EQ(scene.count(Do::kTellRendezvous, 0, MeshMessage::kSuspect), 2U);
  EXPECT_EQ(scene.reports(2), States{PeerState::kSuspect});
}

TEST(Membership, CondemnsNobodyAfterAPauseOfItsOwn) {
  Scene scene(3);
  scene.run(kTimeout, {0, 2});
  scene.judge(1000 * kTimeout);
  EXPECT_EQ(scene.all_reports(), 0U);
  scene.run(kTimeout, {0, 2});
  EXPECT_EQ(scene.all_reports(), 0U);
}

TEST(Membership, CountsRareProgressAtMostAnEighth) {
  Scene scene(3);
  scene.membership.heard(0);
  // Five calls, a whole timeout apart, are not yet five eighths of progress time.
  for (int i = 0; i < 4; ++i) {
    scene.membership.heard(0);
    scene.membership.heard_rendezvous();
    scene.judge(kTimeout);
  }
  EXPECT_EQ(scene.all_reports(), 0U);
  for (int i = 0; i < 2; ++i) {
    scene.membership.heard(0);
    scene.membership.heard_rendezvous();
    scene.judge(kTimeout);
  }
  EXPECT_EQ(scene.reports(2), States{PeerState::kSuspect});
}

TEST(Membership, AbandonsASilentRendezvousAndJudgesItself) {
  Scene scene(3);
  scene.run(kTimeout * 5 / 8 + 1000, {2}, false);
  EXPECT_EQ(scene.count(Do::kTellRendezvous, 0, MeshMessage::kAbandon), 1U);
  EXPECT_EQ(scene.reports(0).back(), PeerState::kLost);
  EXPECT_EQ(scene.count(Do::kTellPeer, 0, MeshMessage::kRemoved), 1U);
  EXPECT_EQ(scene.reports(2), States());
}

TEST(Membership, TellsTheRemovedPeerBeforeClosing) {
  Scene scene(3);
  scene.removed(2);
  scene.judge();
  const auto told =
      std::find_if(scene.actions.begin(), scene.actions.end(), [](const auto& action) {
        return action.what == Do::kTellPeer && action.type == MeshMessage::kRemoved;
      });
  const auto closed =
      std::find_if(scene.actions.begin(), scene.actions.end(),
                   [](const auto& action) { return action.what == Do::kClosePeer; });
  ASSERT_NE(closed, scene.actions.end());
  EXPECT_LT(told, closed);
}

// What a process finds that was stopped and removed: the verdict, and connections that ended.
TEST(Membership, ReportsOnlyTheMeshWhenItWasRemovedItself) {
  Scene scene(4);
  for (const Rank rank : {0U, 2U, 3U}) scene.membership.on_peer_closed(rank, "closed");
  scene.removed(1);
  scene.membership.on_rendezvous_closed();
  scene.judge(100 * kTimeout);
  scene.judge(100 * kTimeout);
  EXPECT_EQ(scene.mesh_losses(), 1U);
  EXPECT_EQ(scene.all_reports(), 0U);
  EXPECT_TRUE(scene.membership.mesh_lost());
}

TEST(Membership, BelievesTheMajorityOfItsPeers) {
  Scene scene(4);
  const auto dropped_by = [&scene](Rank rank) {
    scene.membership.on_peer_message(rank, MeshMessage::kRemoved,
                                     encode(MembershipMessage{2, 1, "silent for 5 s"}));
    scene.membership.on_peer_closed(rank, "closed");
  };
  dropped_by(0);
  scene.judge();
  EXPECT_EQ(scene.mesh_losses(), 0U);
  EXPECT_EQ(scene.reports(0), States{PeerState::kSuspect});
  dropped_by(2);
  scene.judge();
  EXPECT_EQ(scene.mesh_losses(), 1U);
}

TEST(Membership, ReportsALeaverAsLeft) {
  Scene scene(3);
  scene.membership.on_peer_message(2, MeshMessage::kLeave, {});
  scene.membership.on_peer_closed(2, "closed");
  scene.run(3 * kTimeout, {0});
  EXPECT_EQ(scene.reports(2), States{PeerState::kLeft});
  EXPECT_EQ(scene.count(Do::kTellPeer, 2, MeshMessage::kLeaveDone), 1U);
}

// The rendezvous may be quicker than the leaver's own last messages.
TEST(Membership, WaitsForTheLeaversOwnWord) {
  Scene scene(3);
  scene.membership.on_rendezvous_message(MeshMessage::kMemberLeft,
                                         encode(MembershipMessage{2, 2, {}}));
  scene.judge();
  EXPECT_EQ(scene.reports(2), States());
  scene.membership.on_peer_closed(2, "reset");
  scene.judge();
  EXPECT_EQ(scene.reports(2), States{PeerState::kLeft});
}

TEST(Membership, LeavesWhenTheRendezvousKnowsAndAllIsSent) {
  Scene scene(3);
  EXPECT_FALSE(scene.membership.left(true));
  scene.membership.leave();
  scene.judge();
  EXPECT_EQ(scene.count(Do::kTellPeer, 0, MeshMessage::kLeave), 1U);
  EXPECT_EQ(scene.count(Do::kTellPeer, 2, MeshMessage::kLeave), 1U);
  EXPECT_EQ(scene.count(Do::kTellRendezvous, 0, MeshMessage::kLeave), 1U);
  EXPECT_FALSE(scene.membership.left(true));
  scene.membership.on_rendezvous_message(MeshMessage::kLeaveDone, {});
  EXPECT_FALSE(scene.membership.left(false));
  EXPECT_TRUE(scene.membership.left(true));
}

TEST(Membership, LeavesByItsPeersWordWithoutARendezvous) {
  Scene scene(4);
  scene.membership.on_rendezvous_closed();
  scene.membership.leave();
  scene.judge();
  scene.membership.on_peer_message(0, MeshMessage::kLeaveDone, {});
  scene.membership.on_peer_closed(2, "closed");
  scene.judge();
  EXPECT_FALSE(scene.membership.left(true));
  scene.membership.on_peer_message(3, MeshMessage::kLeaveDone, {});
  EXPECT_TRUE(scene.membership.left(true));
}

TEST(Membership, LosesNobodyWhileLeaving) {
  Scene scene(3);
  scene.membership.leave();
  scene.membership.on_peer_closed(2, "reset");
  scene.membership.on_rendezvous_message(MeshMessage::kLeaveDone, {});
  scene.run(3 * kTimeout, {}, false);
  EXPECT_EQ(scene.reports(2), States{PeerState::kLeft});
  EXPECT_EQ(scene.reports(0), States());
}

TEST(Membership, OfOneNeedsNobody) {
  Membership alone(0, kTimeout, peers(1), false, 1, 1);
  alone.judge(1 + kTimeout);
  EXPECT_TRUE(alone.take_actions().empty());
  alone.leave();
  EXPECT_TRUE(alone.left(true));
}

TEST(Membership, IgnoresNoise) {
  Scene scene(3);
  const std::vector<std::byte> noise(13, std::byte{0xff});
  for (uint16_t type = 0; type < 40; ++type) {
    const auto message = static_cast<MeshMessage>(type);
    if (message == MeshMessage::kLeave || message == MeshMessage::kClosing) continue;
    scene.membership.on_peer_message(2, message, noise);
    scene.membership.on_rendezvous_message(message, noise);
  }
  scene.removed(77);
  scene.run(2 * kTimeout, {0, 2});
  EXPECT_EQ(scene.all_reports(), 0U);
  EXPECT_EQ(scene.mesh_losses(), 0U);
}

TEST(ProgressTime, NeverRunsFasterThanItsStep) {
  ProgressTime time(100, 10);
  EXPECT_EQ(time.advance(105), 5);
  EXPECT_EQ(time.advance(1000), 15);
  EXPECT_EQ(time.advance(900), 15);
  EXPECT_EQ(time.advance(1001), 16);
}

}  // namespace
}  // namespace asyncmesh::mesh
