// A mesh at work: messages, losses, leaving, the end of the rendezvous.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "mesh/mesh.h"
#include "mesh/rendezvous_server.h"
#include "mesh_party.h"
#include "support/alloc_guard.h"

namespace asyncmesh::mesh {
namespace {

using Bytes = std::vector<std::byte>;

TEST(MeshRunning, DeliversInOrder) {
  const ReservedPort port;
  std::vector<Member> members = join_world(2, port.url());
  ASSERT_TRUE(members[0].mesh && members[1].mesh);
  for (uint16_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(members[0].mesh->send_st(1, i, Bytes(i, static_cast<std::byte>(i))), Code::kOk);
  }
  const auto& received = members[1].recorder->messages;
  ASSERT_TRUE(pump(members, [&] { return received.size() == 1000; }));
  for (uint16_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(received[i].from, 0U);
    EXPECT_EQ(received[i].type, i);
    EXPECT_EQ(received[i].body, Bytes(i, static_cast<std::byte>(i)));
  }
}

TEST(MeshRunning, BoundsMessagesAndQueues) {
  const ReservedPort port;
  std::vector<Member> members = join_world(2, port.url());
  ASSERT_TRUE(members[0].mesh && members[1].mesh);
  Mesh& mesh = *members[0].mesh;
  EXPECT_EQ(mesh.send_st(1, 1, Bytes((1 << 20) + 1)), Code::kTooLarge);
  EXPECT_EQ(mesh.send_st(0, 1, {}), Code::kInvalidArgument);
  EXPECT_EQ(mesh.send_st(2, 1, {}), Code::kInvalidArgument);
  // The peer does not read: the queue ends somewhere, without loss.
  const Bytes body(1 << 20, std::byte{5});
  size_t accepted = 0;
  while (accepted < 1000 && mesh.send_st(1, 1, body) == Code::kOk) ++accepted;
  EXPECT_GE(accepted, 16U);
  EXPECT_LT(accepted, 100U);
  const auto& received = members[1].recorder->messages;
  EXPECT_TRUE(pump(members, [&] { return received.size() == accepted; }));
  EXPECT_EQ(mesh.send_st(1, 1, body), Code::kOk);
}

TEST(MeshRunning, KeepsMessagesUntilThereIsAListener) {
  const ReservedPort port;
  std::vector<Member> members = join_world(2, port.url());
  ASSERT_TRUE(members[0].mesh && members[1].mesh);
  members[1].mesh->set_listener_st(nullptr);
  ASSERT_EQ(members[0].mesh->send_st(1, 7, Bytes(3)), Code::kOk);
  const SteadyClock clock;
  EXPECT_EQ(members[1].mesh->progress_st(clock.now()), 0U);
  members[1].mesh->set_listener_st(members[1].recorder.get());
  EXPECT_TRUE(pump(members, [&] { return members[1].recorder->messages.size() == 1; }));
}

TEST(MeshRunning, ReportsALostPeerToAllOthersAtOnce) {
  const ReservedPort port;
  std::vector<Member> members = join_world(4, port.url());
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  ASSERT_EQ(members[2].mesh->send_st(1, 9, Bytes(5)), Code::kOk);
  members[2].mesh.reset();
  const SteadyClock clock;
  const Nanoseconds start = clock.now();
  ASSERT_TRUE(pump(members, [&] {
    return members[0].recorder->state(2) == PeerState::kLost &&
           members[1].recorder->state(2) == PeerState::kLost &&
           members[3].recorder->state(2) == PeerState::kLost;
  }));
  EXPECT_LT(clock.now() - start, 2 * kSecond);  // far below the timeout of 10 s
  EXPECT_EQ(members[1].recorder->messages.size(), 1U);
  for (const Rank rank : {0U, 1U, 3U}) {
    const PeerInfo& info = members[rank].mesh->peer(2);
    EXPECT_NE(info.reason.find("rank 2 ("), std::string::npos) << info.reason;
    EXPECT_NE(info.reason.find("pid "), std::string::npos) << info.reason;
    EXPECT_EQ(members[rank].mesh->membership_epoch(), 2U);
    EXPECT_EQ(members[rank].mesh->send_st(2, 1, {}), Code::kPeerLost);
    EXPECT_TRUE(members[rank].recorder->mesh_lost.empty());
  }
}

TEST(MeshRunning, OutlivesTheRankThatServesTheRendezvous) {
  const ReservedPort port;
  std::vector<Member> members = join_world(4, port.url());
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  members[0].mesh.reset();
  ASSERT_TRUE(pump(members, [&] {
    return std::all_of(members.begin() + 1, members.end(), [](const Member& member) {
      return member.recorder->state(0) == PeerState::kLost;
    });
  }));
  // The others go on, and still notice each other's end.
  ASSERT_EQ(members[1].mesh->send_st(2, 4, {}), Code::kOk);
  ASSERT_TRUE(pump(members, [&] { return members[2].recorder->messages.size() == 1; }));
  members[3].mesh.reset();
  ASSERT_TRUE(pump(members, [&] {
    return members[1].recorder->state(3) == PeerState::kLost &&
           members[2].recorder->state(3) == PeerState::kLost;
  }));
  EXPECT_EQ(members[1].recorder->state(2), PeerState::kAlive);
  EXPECT_TRUE(members[1].recorder->mesh_lost.empty());
}

TEST(MeshRunning, LeavesWithoutLosses) {
  const ReservedPort port;
  std::vector<Member> members = join_world(4, port.url());
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  for (Member& member : members) member.mesh->leave_st();
  EXPECT_EQ(members[0].mesh->send_st(1, 1, {}), Code::kInvalidState);
  EXPECT_TRUE(pump(members, [&] {
    return std::all_of(members.begin(), members.end(),
                       [](const Member& member) { return member.mesh->left_st(); });
  }));
  for (Member& member : members) {
    member.mesh.reset();
    for (const PeerInfo& peer : member.recorder->peers)
      EXPECT_EQ(peer.state, PeerState::kLeft) << peer.reason;
    EXPECT_TRUE(member.recorder->mesh_lost.empty());
  }
}

TEST(MeshRunning, ReportsALeaverAsLeftAfterItsMessages) {
  const ReservedPort port;
  std::vector<Member> members = join_world(3, port.url());
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  for (uint16_t i = 0; i < 50; ++i)
    ASSERT_EQ(members[1].mesh->send_st(2, i, Bytes(1000)), Code::kOk);
  members[1].mesh->leave_st();
  ASSERT_TRUE(pump(members, [&] { return members[1].mesh->left_st(); }));
  members[1].mesh.reset();
  ASSERT_TRUE(pump(members, [&] {
    return members[0].recorder->state(1) == PeerState::kLeft &&
           members[2].recorder->state(1) == PeerState::kLeft;
  }));
  EXPECT_EQ(members[2].recorder->messages.size(), 50U);
  EXPECT_EQ(members[2].mesh->send_st(1, 1, {}), Code::kPeerLost);
  for (const Rank rank : {0U, 2U}) {
    EXPECT_FALSE(members[rank].recorder->saw(1, PeerState::kLost));
    EXPECT_FALSE(members[rank].recorder->saw(1, PeerState::kSuspect));
  }
}

TEST(MeshRunning, GoesOnWhenTheServingRankLeavesFirst) {
  const ReservedPort port;
  std::vector<Member> members = join_world(3, port.url());
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  members[0].mesh->leave_st();
  ASSERT_TRUE(pump(members, [&] { return members[0].mesh->left_st(); }));
  std::thread destroyer([&] { members[0].mesh.reset(); });
  destroyer.join();
  ASSERT_TRUE(pump(members, [&] {
    return members[1].recorder->state(0) == PeerState::kLeft &&
           members[2].recorder->state(0) == PeerState::kLeft;
  }));
  members[1].mesh->leave_st();
  ASSERT_TRUE(pump(members, [&] { return members[1].mesh->left_st(); }));
  EXPECT_EQ(members[2].recorder->state(1), PeerState::kLeft);
  EXPECT_FALSE(members[2].recorder->saw(0, PeerState::kLost));
  EXPECT_FALSE(members[2].recorder->saw(1, PeerState::kLost));
}

TEST(MeshRunning, GoesOnWithoutAStandaloneRendezvous) {
  RendezvousConfig rendezvous;
  rendezvous.addresses = {parse_address("127.0.0.1", 0).value()};
  rendezvous.secret = config_of(0, 1, "").secret;
  auto server = RendezvousServer::start(rendezvous, Logger());
  ASSERT_TRUE(server.ok());
  const std::string url = "tcp://127.0.0.1:" + std::to_string(server.value()->port());
  std::vector<MeshConfig> configs;
  for (Rank rank = 0; rank < 3; ++rank) {
    configs.push_back(config_of(rank, 3, url));
    configs.back().external_rendezvous = true;
  }
  std::vector<Member> members = join_all(configs);
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  std::thread closing([&] { server.value().reset(); });
  closing.join();
  members[2].mesh.reset();
  ASSERT_TRUE(pump(members, [&] {
    return members[0].recorder->state(2) == PeerState::kLost &&
           members[1].recorder->state(2) == PeerState::kLost;
  }));
  EXPECT_EQ(members[0].recorder->state(1), PeerState::kAlive);
}

TEST(MeshRunning, DoesNotAllocateWhileNothingHappens) {
  const ReservedPort port;
  std::vector<Member> members = join_world(3, port.url());
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  const SteadyClock clock;
  const auto round = [&] {
    const test::AllocGuard guard;
    for (int i = 0; i < 1000; ++i) {
      for (Member& member : members) member.mesh->progress_st(clock.now());
    }
    return guard.in_thread();
  };
  // Signs of life allocate (inside OpenSSL), every 1.25 s: one round in a row is without.
  uint64_t fewest = round();
  for (int i = 0; i < 10 && fewest > 0; ++i) fewest = std::min(fewest, round());
  EXPECT_EQ(fewest, 0U);
}

TEST(MeshRunning, IsNotDisturbedByStrangersAtTheRendezvous) {
  const ReservedPort port;
  std::vector<Member> members = join_world(3, port.url());
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  const SteadyClock clock;
  std::vector<ForkSafeFd> strangers;
  for (size_t i = 0; i < RendezvousServer::kMaxPending + 50; ++i) {
    auto fd = dial_and_wait(parse_address("127.0.0.1", port.port()).value(), clock,
                            clock.now() + kSecond);
    ASSERT_TRUE(fd.ok()) << fd.status().text();
    const std::string noise(1 + i % 100, static_cast<char>(i));
    static_cast<void>(send(fd.value().get(), noise.data(), noise.size(), MSG_NOSIGNAL));
    if (i % 2 == 0) strangers.push_back(std::move(fd.value()));
  }
  members[1].mesh.reset();
  EXPECT_TRUE(pump(members, [&] {
    return members[0].recorder->state(1) == PeerState::kLost &&
           members[2].recorder->state(1) == PeerState::kLost;
  }));
  EXPECT_EQ(members[0].recorder->state(2), PeerState::kAlive);
}

// A rank that does not call progress is as good as stopped; when it resumes it learns that it was
// removed, and the others are unharmed.
TEST(MeshRunning, RemovesASilentRankAndTellsItLater) {
  const ReservedPort port;
  constexpr Nanoseconds kTimeout = 2 * kSecond;
  std::vector<MeshConfig> configs;
  for (Rank rank = 0; rank < 3; ++rank) {
    configs.push_back(config_of(rank, 3, port.url()));
    configs.back().peer_timeout = kTimeout;
  }
  std::vector<Member> members = join_all(configs);
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  std::vector<Member> active;
  active.push_back(std::move(members[0]));
  active.push_back(std::move(members[1]));
  const SteadyClock clock;
  const Nanoseconds start = clock.now();
  ASSERT_TRUE(pump(active, [&] {
    return active[0].recorder->state(2) == PeerState::kLost &&
           active[1].recorder->state(2) == PeerState::kLost;
  }));
  EXPECT_GE(clock.now() - start, kTimeout / 2);
  EXPECT_TRUE(active[0].recorder->saw(2, PeerState::kSuspect));
  EXPECT_NE(active[1].mesh->peer(2).reason.find("silent"), std::string::npos)
      << active[1].mesh->peer(2).reason;
  members[2].mesh->progress_st(clock.now());
  ASSERT_EQ(members[2].recorder->mesh_lost.size(), 1U);
  EXPECT_TRUE(members[2].recorder->peers.empty());
  EXPECT_EQ(members[2].mesh->send_st(0, 1, {}), Code::kPeerLost);
  ASSERT_FALSE(pump(
      active, [&] { return active[0].recorder->state(1) != PeerState::kAlive; }, kSecond / 4));
}

// Everybody computes for longer than the timeout without calling progress: nobody is to blame.
TEST(MeshRunning, BlamesNobodyWhenAllWereBusy) {
  const ReservedPort port;
  std::vector<MeshConfig> configs;
  for (Rank rank = 0; rank < 3; ++rank) {
    configs.push_back(config_of(rank, 3, port.url()));
    configs.back().peer_timeout = kSecond / 2;
  }
  std::vector<Member> members = join_all(configs);
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  const SteadyClock clock;
  for (Nanoseconds at = clock.now(), end = at + kSecond; at < end; at = clock.now()) {
  }
  for (int i = 0; i < 3; ++i) {
    for (Member& member : members) member.mesh->progress_st(clock.now());
  }
  for (const Member& member : members) {
    EXPECT_TRUE(member.recorder->peers.empty());
    EXPECT_TRUE(member.recorder->mesh_lost.empty());
  }
}

}  // namespace
}  // namespace asyncmesh::mesh
