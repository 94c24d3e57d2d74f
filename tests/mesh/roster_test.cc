#include "mesh/roster.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mesh/handshake.h"

namespace asyncmesh::mesh {
namespace {

constexpr Nanoseconds kTimeout = 8'000;  // heartbeat 1000, tick 500, suspect 5000, confirm 4000

Identity identity(Rank rank, uint32_t world) {
  Identity identity;
  identity.rank = rank;
  identity.replicas = world;
  identity.replica = rank;
  identity.peer_timeout = kTimeout;
  identity.library_version = "0.1.0";
  identity.transport_version = "ucx 1.13";
  identity.host = "node" + std::to_string(rank);
  identity.pid = 100 + rank;
  identity.announce_host = "10.0.0." + std::to_string(rank + 1);
  identity.port = 1000;
  return identity;
}

Arrival arrival(const Identity& identity) {
  return {identity, identity.announce_host, "10.0.0.99", false, false};
}

// A roster driven by hand; what it sends is kept by kind.
struct Scene {
  uint32_t world;
  Nanoseconds now = 1;
  Roster roster;
  std::vector<Roster::Outgoing> sent;

  explicit Scene(uint32_t ranks, std::optional<Rank> host = 0)
      : world(ranks), roster(identity(0, ranks), host, 1) {}

  void judge(Nanoseconds step = 1) {
    now += step;
    roster.judge(now);
    auto more = roster.take_outgoing();
    std::move(more.begin(), more.end(), std::back_inserter(sent));
  }
  // Steps as a running server does; `talking` ranks send signs of life.
  void run(Nanoseconds duration, const std::vector<Rank>& talking) {
    for (Nanoseconds passed = 0; passed < duration; passed += 250) {
      for (const Rank rank : talking) roster.on_heard(rank);
      judge(250);
    }
  }
  void start() {
    for (Rank rank = 0; rank < world; ++rank)
      ASSERT_TRUE(roster.admit(arrival(identity(rank, world))).ok());
    for (Rank rank = 0; rank < world; ++rank) roster.on_message(rank, MeshMessage::kReady, {});
    judge();
    ASSERT_EQ(roster.phase(), Roster::Phase::kRunning);
    sent.clear();
  }
  void suspect(Rank reporter, Rank rank, Suspicion suspicion) {
    roster.on_message(reporter, MeshMessage::kSuspect,
                      encode(SuspectMessage{rank, suspicion, "r"}));
  }
  std::vector<Rank> told(MeshMessage type) const {
    std::vector<Rank> ranks;
    for (const auto& outgoing : sent) {
      if (outgoing.type == type) ranks.push_back(outgoing.to);
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  std::string reason_for(Rank removed) const {
    for (const auto& outgoing : sent) {
      MembershipMessage message;
      if (outgoing.type == MeshMessage::kRemoved && decode(outgoing.body, &message) &&
          message.rank == removed) {
        return message.reason;
      }
    }
    return {};
  }
};

using Ranks = std::vector<Rank>;

TEST(Roster, StartsWhenAllAreReady) {
  Scene scene(2);
  ASSERT_TRUE(scene.roster.admit(arrival(identity(1, 2))).ok());
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kMembers), Ranks());
  ASSERT_TRUE(scene.roster.admit(arrival(identity(0, 2))).ok());
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kMembers), (Ranks{0, 1}));
  scene.roster.on_message(0, MeshMessage::kReady, {});
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kStart), Ranks());
  scene.roster.on_message(1, MeshMessage::kReady, {});
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kStart), (Ranks{0, 1}));
  EXPECT_EQ(scene.roster.epoch(), 1U);
}

TEST(Roster, SaysWhatDiffers) {
  Scene scene(2);
  const auto refusal = [&scene](Identity other) {
    const Status status = scene.roster.admit(arrival(other));
    EXPECT_EQ(status.code(), Code::kMismatch);
    return status.text();
  };
  EXPECT_NE(refusal(identity(2, 3)).find("world size is 3 there and 2 here"), std::string::npos);
  Identity other = identity(1, 2);
  other.library_version = "0.2.0";
  EXPECT_NE(refusal(other).find("library version is 0.2.0 there and 0.1.0 here"),
            std::string::npos);
  other = identity(1, 2);
  other.transport_version = "ucx 1.18";
  EXPECT_NE(refusal(other).find("ucx 1.18"), std::string::npos);
  other = identity(1, 2);
  other.peer_timeout = 3'000'000'000;
  EXPECT_NE(refusal(other).find("peer_timeout"), std::string::npos);
  other = identity(1, 2);
  other.replicas = 1;
  other.stages = 2;
  other.replica = 0;
  EXPECT_NE(refusal(other).find("number of stages"), std::string::npos);
  other = identity(2, 2);
  EXPECT_NE(refusal(other).find("outside"), std::string::npos);
}

// The run before, or after, this one on the same port.
TEST(Roster, AsksAnotherRunToComeAgain) {
  Scene scene(2);
  Identity other = identity(1, 2);
  other.run_id = "other";
  const Status status = scene.roster.admit(arrival(other));
  EXPECT_EQ(status.code(), Code::kAgain);
  EXPECT_NE(status.text().find("run id"), std::string::npos);
}

TEST(Roster, RefusesADuplicateRankNamingItsHolder) {
  Scene scene(2);
  ASSERT_TRUE(scene.roster.admit(arrival(identity(1, 2))).ok());
  const Status status = scene.roster.admit(arrival(identity(1, 2)));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.text().find("rank 1 is taken: it is rank 1 (node1, pid 101)"),
            std::string::npos);
}

TEST(Roster, RefusesADuplicatePlaceInTheGeometry) {
  Scene scene(3);
  ASSERT_TRUE(scene.roster.admit(arrival(identity(1, 3))).ok());
  Identity other = identity(2, 3);
  other.replica = 1;
  EXPECT_NE(scene.roster.admit(arrival(other)).text().find("replica 1, stage 0 is taken"),
            std::string::npos);
}

TEST(Roster, FreesThePlaceOfWhoGoesWhileGathering) {
  Scene scene(2);
  ASSERT_TRUE(scene.roster.admit(arrival(identity(1, 2))).ok());
  scene.roster.on_closed(1, "gone");
  EXPECT_TRUE(scene.roster.empty());
  EXPECT_TRUE(scene.roster.admit(arrival(identity(1, 2))).ok());
}

TEST(Roster, AsksLateComersToWaitForTheEndOfTheOldJob) {
  Scene scene(2);
  scene.start();
  scene.roster.on_closed(1, "gone");
  EXPECT_EQ(scene.roster.admit(arrival(identity(1, 2))).code(), Code::kAgain);
  EXPECT_EQ(scene.roster.admit(arrival(identity(0, 2))).code(), Code::kMismatch);
}

TEST(Roster, FailsTheJoinWhenAMemberDiesWhileConnecting) {
  Scene scene(3);
  for (Rank rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(scene.roster.admit(arrival(identity(rank, 3))).ok());
  scene.roster.on_closed(2, "gone");
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kRefused), (Ranks{0, 1}));
  EXPECT_TRUE(scene.roster.empty());
}

TEST(Roster, TellsWhoIsHereWhileOthersAreMissing) {
  Scene scene(3);
  ASSERT_TRUE(scene.roster.admit(arrival(identity(2, 3))).ok());
  scene.judge(100'000'000);
  ASSERT_EQ(scene.told(MeshMessage::kPresent), Ranks{2});
  Ranks present;
  ASSERT_TRUE(decode_ranks(scene.sent.back().body, &present) ||
              decode_ranks(scene.sent.front().body, &present));
  EXPECT_EQ(present, Ranks{2});
}

TEST(Roster, ReplacesLoopbackAddressesForOtherHosts) {
  Scene scene(2);
  Identity local = identity(0, 2);
  local.announce_host = "127.0.1.1";
  ASSERT_TRUE(scene.roster.admit({local, "127.0.0.1", "127.0.1.1", true, true}).ok());
  ASSERT_TRUE(scene.roster.admit({identity(1, 2), "10.0.0.2", "10.0.0.1", false, false}).ok());
  scene.judge();
  std::vector<Identity> members;
  for (const auto& outgoing : scene.sent) {
    if (outgoing.type == MeshMessage::kMembers) {
      ASSERT_TRUE(decode_members(outgoing.body, &members));
    }
  }
  ASSERT_EQ(members.size(), 2U);
  EXPECT_EQ(members[0].announce_host, "10.0.0.1");
  EXPECT_EQ(members[1].announce_host, "10.0.0.2");
}

TEST(Roster, RefusesALoopbackAddressFromAnotherHost) {
  Scene scene(2);
  Identity remote = identity(1, 2);
  remote.announce_host = "127.0.0.1";
  const Status status = scene.roster.admit({remote, "10.0.0.2", "10.0.0.1", false, true});
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.text().find("loopback"), std::string::npos);
}

TEST(Roster, RemovesADeadMemberAtOnce) {
  Scene scene(3);
  scene.start();
  scene.roster.on_closed(2, "the connection was closed");
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), (Ranks{0, 1}));
  EXPECT_EQ(scene.roster.epoch(), 2U);
  EXPECT_FALSE(scene.roster.keeps(2));
}

// Its end, which may follow at once, must not be the first that the others hear of.
TEST(Roster, TellsTheHostLast) {
  Scene scene(4, 1);
  scene.start();
  scene.roster.on_closed(3, "the connection was closed");
  scene.judge();
  Ranks order;
  for (const auto& outgoing : scene.sent) order.push_back(outgoing.to);
  EXPECT_EQ(order, (Ranks{0, 2, 1}));
}

TEST(Roster, LetsALeaverGo) {
  Scene scene(3);
  scene.start();
  scene.roster.on_message(1, MeshMessage::kLeave, {});
  scene.roster.on_closed(1, "the connection was closed");
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kMemberLeft), (Ranks{0, 2}));
  EXPECT_EQ(scene.told(MeshMessage::kLeaveDone), Ranks{1});
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), Ranks());
}

TEST(Roster, NeedsASuspicionAndItsOwnSilenceToRemove) {
  Scene scene(3);
  scene.start();
  // Silent to the rendezvous alone: nothing happens.
  scene.run(3 * kTimeout, {0, 1});
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), Ranks());
  // Suspected as well: it goes, and is told.
  scene.suspect(0, 2, Suspicion::kSilent);
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), (Ranks{0, 1, 2}));
  EXPECT_NE(scene.reason_for(2).find("silent"), std::string::npos);
}

TEST(Roster, KeepsASuspectThatItHears) {
  Scene scene(3);
  scene.start();
  scene.suspect(0, 2, Suspicion::kSilent);
  scene.run(kTimeout / 2, {0, 1, 2});
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), Ranks());
  scene.roster.on_message(0, MeshMessage::kClear, encode_ranks({2}));
  scene.run(3 * kTimeout, {0, 1, 2});
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), Ranks());
}

TEST(Roster, RemovesOneOfTwoThatCannotTalk) {
  Scene scene(3);
  scene.start();
  scene.suspect(0, 1, Suspicion::kClosed);
  scene.suspect(1, 0, Suspicion::kClosed);
  scene.run(kTimeout / 4 + 500, {0, 1, 2});
  EXPECT_FALSE(scene.reason_for(1).empty());  // the higher rank
  EXPECT_TRUE(scene.reason_for(0).empty());
}

TEST(Roster, RemovesTheOneThatNobodyReaches) {
  Scene scene(4);
  scene.start();
  for (const Rank reporter : {1U, 2U, 3U}) scene.suspect(reporter, 0, Suspicion::kSilent);
  scene.run(kTimeout + 500, {0, 1, 2, 3});
  EXPECT_FALSE(scene.reason_for(0).empty());
  for (const Rank rank : {1U, 2U, 3U}) EXPECT_TRUE(scene.reason_for(rank).empty()) << rank;
}

// The server itself was stopped: it heard nobody meanwhile, and must not believe a report at once.
TEST(Roster, CondemnsNobodyAfterItsOwnPause) {
  Scene scene(3);
  scene.start();
  scene.suspect(0, 2, Suspicion::kSilent);
  scene.judge(100 * kTimeout);
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), Ranks());
}

TEST(Roster, GivesUpItsHostWhenTheMajorityWentOnWithoutIt) {
  Scene scene(4);
  scene.start();
  for (const Rank rank : {1U, 2U, 3U}) scene.roster.on_message(rank, MeshMessage::kAbandon, {});
  for (const Rank rank : {1U, 2U, 3U}) scene.roster.on_closed(rank, "closed");
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), Ranks{0});
  EXPECT_FALSE(scene.reason_for(0).empty());
  EXPECT_TRUE(scene.roster.empty());
}

TEST(Roster, RemovesALoneMemberThatGivesUp) {
  Scene scene(4);
  scene.start();
  scene.roster.on_message(2, MeshMessage::kAbandon, {});
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), (Ranks{0, 1, 3}));
  EXPECT_FALSE(scene.reason_for(2).empty());
}

TEST(Roster, GivesUpTheHostOfTwo) {
  Scene scene(2);
  scene.start();
  scene.roster.on_message(1, MeshMessage::kAbandon, {});
  scene.judge();
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), Ranks{0});
  EXPECT_FALSE(scene.reason_for(0).empty());
}

TEST(Roster, IgnoresWhatMakesNoSense) {
  Scene scene(3);
  scene.start();
  scene.suspect(1, 1, Suspicion::kClosed);
  scene.suspect(1, 77, Suspicion::kClosed);
  const std::vector<std::byte> noise(5, std::byte{0xff});
  for (uint16_t type = 0; type < 40; ++type) {
    if (type == static_cast<uint16_t>(MeshMessage::kLeave)) continue;
    if (type == static_cast<uint16_t>(MeshMessage::kAbandon)) continue;
    scene.roster.on_message(1, static_cast<MeshMessage>(type), noise);
  }
  scene.run(3 * kTimeout, {0, 1, 2});
  EXPECT_EQ(scene.told(MeshMessage::kRemoved), Ranks());
}

TEST(Roster, SendsSignsOfLife) {
  Scene scene(2);
  scene.start();
  scene.run(kTimeout, {0, 1});
  EXPECT_GE(scene.told(MeshMessage::kHeartbeat).size(), 14U);
}

}  // namespace
}  // namespace asyncmesh::mesh
