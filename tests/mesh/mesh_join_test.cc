// Joining: who is taken, who is refused and is told why, and what strangers can do (nothing).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "mesh/poller.h"
#include "mesh/rendezvous_server.h"
#include "mesh_party.h"

namespace asyncmesh::mesh {
namespace {

Result<std::unique_ptr<Mesh>> join(const MeshConfig& config, Nanoseconds patience,
                                   const Logger& logger = {}) {
  const SteadyClock clock;
  return Mesh::join(config, clock, logger, deadline_after(clock, patience));
}

// A mesh of `world` whose last rank is missing, while `visitor` runs; then the last rank comes.
template <typename Visitor>
void with_gathering_mesh(uint32_t world, Visitor visitor, const Logger& logger = {}) {
  const ReservedPort port;
  std::vector<Member> members;
  std::thread others([&] {
    std::vector<MeshConfig> configs;
    for (Rank rank = 0; rank + 1 < world; ++rank)
      configs.push_back(config_of(rank, world, port.url()));
    members = join_all(configs, logger);
  });
  visitor(port);
  auto last = join(config_of(world - 1, world, port.url()), 20 * kSecond);
  EXPECT_TRUE(last.ok()) << last.status().text();
  others.join();
}

TEST(MeshJoin, ExchangesIdentitiesAndAddresses) {
  const ReservedPort port;
  std::vector<Member> members = join_world(3, port.url());
  for (const Member& member : members) {
    ASSERT_TRUE(member.mesh);
    EXPECT_EQ(member.mesh->world(), 3U);
    EXPECT_EQ(member.mesh->membership_epoch(), 1U);
    for (Rank rank = 0; rank < 3; ++rank) {
      const PeerInfo& peer = member.mesh->peer(rank);
      EXPECT_EQ(peer.rank, rank);
      EXPECT_EQ(peer.replica, rank);
      EXPECT_EQ(peer.state, PeerState::kAlive);
      EXPECT_TRUE(peer.same_host);
      EXPECT_NE(peer.incarnation, 0U);
      EXPECT_EQ(peer.pid, static_cast<uint32_t>(getpid()));
      EXPECT_EQ(peer.address, std::vector<std::byte>(10 + rank, static_cast<std::byte>(rank)));
    }
  }
}

TEST(MeshJoin, TakesLargeTransportAddresses) {
  const ReservedPort port;
  std::vector<MeshConfig> configs = {config_of(0, 2, port.url()), config_of(1, 2, port.url())};
  configs[1].address.assign(200'000, std::byte{7});
  std::vector<Member> members = join_all(configs);
  ASSERT_TRUE(members[0].mesh);
  EXPECT_EQ(members[0].mesh->peer(1).address.size(), 200'000U);
}

TEST(MeshJoin, WorksOverIpv6) {
  const ForkSafeFd probe = ForkSafeFd::open([] { return socket(AF_INET6, SOCK_STREAM, 0); });
  const SocketAddress address = parse_address("::1", 0).value();
  ASSERT_EQ(bind(probe.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length),
            0)
      << "this machine has no IPv6 loopback";
  const int on = 1;
  setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  std::vector<Member> members =
      join_world(2, "tcp://[::1]:" + std::to_string(local_address(probe.get()).port()));
  ASSERT_TRUE(members[0].mesh && members[1].mesh);
  EXPECT_TRUE(members[0].mesh->peer(1).same_host);
}

TEST(MeshJoin, JoinsSixtyFourRanksQuickly) {
  const ReservedPort port;
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  const SteadyClock clock;
  const Nanoseconds start = clock.now();
  std::vector<Member> members = join_world(64, port.url());
  const double wall = static_cast<double>(clock.now() - start) * 1e-9;
  getrusage(RUSAGE_SELF, &after);
  const auto seconds = [](const rusage& usage) {
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
  };
  const double cpu = seconds(after) - seconds(before);
  std::printf("64 ranks: %.2f s, %.2f s of CPU\n", wall, cpu);
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(cpu, 4.0);  // 2 s on two cores that have nothing else to do
#endif
}

TEST(MeshJoin, NeedsNoSocketForAWorldOfOne) {
  const FakeClock clock;
  MeshConfig config = config_of(0, 1, "");
  config.secret.clear();
  auto mesh = Mesh::join(config, clock, Logger(), 0);
  ASSERT_TRUE(mesh.ok()) << mesh.status().text();
  Recorder recorder;
  mesh.value()->set_listener_st(&recorder);
  EXPECT_EQ(mesh.value()->progress_st(clock.now()), 0U);
  EXPECT_EQ(mesh.value()->send_st(0, 1, {}), Code::kInvalidArgument);
  mesh.value()->leave_st();
  mesh.value()->progress_st(clock.now());
  EXPECT_TRUE(mesh.value()->left_st());
}

TEST(MeshJoin, ServesAWorldOfOneByUrl) {
  const ReservedPort port;
  auto mesh = join(config_of(0, 1, port.url()), 10 * kSecond);
  EXPECT_TRUE(mesh.ok()) << mesh.status().text();
}

TEST(MeshJoin, TellsAWrongSecretToBothSides) {
  LogLines lines;
  with_gathering_mesh(
      3,
      [&](const ReservedPort& port) {
        MeshConfig config = config_of(2, 3, port.url());
        config.secret = "another one";
        auto mesh = join(config, 10 * kSecond);
        EXPECT_EQ(mesh.code(), Code::kRefused);
        EXPECT_NE(mesh.status().text().find("secret"), std::string::npos) << mesh.status().text();
      },
      lines.logger());
  EXPECT_TRUE(lines.contains("secret of rank 2"));
}

TEST(MeshJoin, TellsAWrongWorldSize) {
  LogLines lines;
  with_gathering_mesh(
      3,
      [](const ReservedPort& port) {
        auto mesh = join(config_of(2, 4, port.url()), 10 * kSecond);
        EXPECT_EQ(mesh.code(), Code::kMismatch);
        EXPECT_NE(mesh.status().text().find("world size is 4 there and 3 here"), std::string::npos)
            << mesh.status().text();
      },
      lines.logger());
  EXPECT_TRUE(lines.contains("world size is 4 there and 3 here"));
}

TEST(MeshJoin, TellsAnotherLibraryVersion) {
  with_gathering_mesh(3, [](const ReservedPort& port) {
    MeshConfig config = config_of(2, 3, port.url());
    config.library_version = "0.2.0";
    auto mesh = join(config, 10 * kSecond);
    EXPECT_EQ(mesh.code(), Code::kMismatch);
    EXPECT_NE(mesh.status().text().find("library version"), std::string::npos)
        << mesh.status().text();
  });
}

TEST(MeshJoin, RefusesADuplicateRank) {
  LogLines lines;
  with_gathering_mesh(
      2,
      [&](const ReservedPort& port) {
        const SteadyClock clock;
        const Nanoseconds deadline = deadline_after(clock, 10 * kSecond);
        while (!lines.contains("rank 0 (") && clock.now() < deadline) std::this_thread::yield();
        MeshConfig config = config_of(0, 2, port.url());
        config.external_rendezvous = true;
        auto mesh = join(config, 10 * kSecond);
        EXPECT_EQ(mesh.code(), Code::kMismatch);
        EXPECT_NE(mesh.status().text().find("rank 0 is taken"), std::string::npos)
            << mesh.status().text();
      },
      lines.logger());
}

TEST(MeshJoin, NamesTheMissingRanks) {
  const ReservedPort port;
  const SteadyClock clock;
  const Nanoseconds start = clock.now();
  auto mesh = join(config_of(0, 4, port.url()), kSecond / 2);
  EXPECT_EQ(mesh.code(), Code::kTimeout);
  EXPECT_NE(mesh.status().text().find("missing of 4 ranks: 1, 2, 3"), std::string::npos)
      << mesh.status().text();
  EXPECT_LT(clock.now() - start, 5 * kSecond);
}

// All ranks of a job have the same patience, and rank 0, which serves, often runs out of it first.
TEST(MeshJoin, NamesTheMissingRanksAlsoWhenTheRendezvousGaveUp) {
  const ReservedPort port;
  std::thread host(
      [&] { EXPECT_EQ(join(config_of(0, 3, port.url()), kSecond / 2).code(), Code::kTimeout); });
  auto mesh = join(config_of(1, 3, port.url()), kSecond);
  host.join();
  EXPECT_EQ(mesh.code(), Code::kTimeout);
  EXPECT_NE(mesh.status().text().find("missing of 3 ranks: 2"), std::string::npos)
      << mesh.status().text();
}

TEST(MeshJoin, SaysThatNobodyServes) {
  const ReservedPort port;
  auto mesh = join(config_of(1, 2, port.url()), kSecond / 4);
  EXPECT_EQ(mesh.code(), Code::kTimeout);
  EXPECT_NE(mesh.status().text().find("Connection refused"), std::string::npos)
      << mesh.status().text();
  EXPECT_NE(mesh.status().text().find(std::to_string(port.port())), std::string::npos);
}

TEST(MeshJoin, ChecksTheConfiguration) {
  const auto refused = [](auto change, const std::string& mention) {
    MeshConfig config = config_of(0, 2, "tcp://127.0.0.1:1");
    change(config);
    auto mesh = join(config, 0);
    EXPECT_EQ(mesh.code(), Code::kInvalidArgument);
    EXPECT_NE(mesh.status().text().find(mention), std::string::npos) << mesh.status().text();
  };
  refused([](MeshConfig& config) { config.rank = 2; }, "rank 2");
  refused([](MeshConfig& config) { config.replicas = 0; }, "0 replicas");
  refused([](MeshConfig& config) { config.replicas = 70'000, config.stages = 70'000; }, "70000");
  refused([](MeshConfig& config) { config.stage = 1; }, "stage 1");
  refused([](MeshConfig& config) { config.url.clear(); }, "url");
  refused([](MeshConfig& config) { config.url = "tcp://127.0.0.1:0"; }, "port 0");
  refused([](MeshConfig& config) { config.peer_timeout = 0; }, "peer_timeout");
  refused([](MeshConfig& config) { config.run_id.assign(300, 'x'); }, "longer");
  refused([](MeshConfig& config) { config.address.resize(1'000'000); }, "transport address");
  refused(
      [](MeshConfig& config) {
        config.secret.clear();
        config.url = "tcp://192.0.2.1:99";
      },
      "secret is mandatory");
  refused(
      [](MeshConfig& config) {
        config.secret.clear();
        config.bind_address = "0.0.0.0";
      },
      "secret is mandatory");
}

TEST(MeshJoin, NeedsNoSecretOnLoopback) {
  const ReservedPort port;
  std::vector<MeshConfig> configs = {config_of(0, 2, port.url()), config_of(1, 2, port.url())};
  for (MeshConfig& config : configs) config.secret.clear();
  std::vector<Member> members = join_all(configs);
  EXPECT_TRUE(members[0].mesh && members[1].mesh);
}

TEST(MeshJoin, StartsAgainAtOnceOnTheSamePort) {
  const ReservedPort port;
  for (int round = 0; round < 5; ++round) {
    std::vector<Member> members = join_world(3, port.url());
    for (const Member& member : members) ASSERT_TRUE(member.mesh) << round;
  }
}

TEST(MeshJoin, WaitsForAnOldJobOnThePortToEnd) {
  const ReservedPort port;
  std::vector<Member> old = join_world(2, port.url());
  ASSERT_TRUE(old[0].mesh && old[1].mesh);
  old[1].mesh.reset();
  // Rank 1 of the next job meets the old rendezvous, rank 0 a port in use.
  std::vector<Member> next;
  std::thread joining([&] { next = join_world(2, port.url()); });
  ASSERT_TRUE(pump(old, [&] { return old[0].recorder->state(1) == PeerState::kLost; }));
  old[0].mesh.reset();
  joining.join();
  EXPECT_TRUE(next[0].mesh && next[1].mesh);
}

TEST(MeshJoin, KeepsJobsApartAtOneRendezvous) {
  RendezvousConfig rendezvous;
  rendezvous.addresses = {parse_address("127.0.0.1", 0).value()};
  rendezvous.secret = config_of(0, 1, "").secret;
  auto server = RendezvousServer::start(rendezvous, Logger());
  ASSERT_TRUE(server.ok()) << server.status().text();
  const std::string url = "tcp://127.0.0.1:" + std::to_string(server.value()->port());
  std::vector<MeshConfig> configs;
  for (const char* run : {"one", "two"}) {
    for (Rank rank = 0; rank < 2; ++rank) {
      configs.push_back(config_of(rank, 2, url));
      configs.back().run_id = run;
      configs.back().external_rendezvous = true;
      configs.back().address.assign(3, run[0] == 'o' ? std::byte{1} : std::byte{2});
    }
  }
  std::vector<Member> members = join_all(configs);
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  EXPECT_EQ(members[0].mesh->peer(1).address[0], std::byte{1});
  EXPECT_EQ(members[2].mesh->peer(1).address[0], std::byte{2});
  // The same run id serves again when its first job is over.
  members[0].mesh.reset();
  members[1].mesh.reset();
  std::vector<Member> again = join_all({configs[0], configs[1]});
  EXPECT_TRUE(again[0].mesh && again[1].mesh);
}

// Sockets of somebody who has no business here.
class Strangers {
 public:
  explicit Strangers(uint16_t port) : address_(parse_address("127.0.0.1", port).value()) {}
  // False: nobody listens (yet).
  bool send(const std::string& bytes) {
    const SteadyClock clock;
    auto fd = dial_and_wait(address_, clock, deadline_after(clock, kSecond));
    if (!fd.ok()) return false;
    static_cast<void>(::send(fd.value().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
    open_.push_back(std::move(fd.value()));
    return true;
  }

 private:
  SocketAddress address_;
  std::vector<ForkSafeFd> open_;
};

TEST(MeshJoin, IsNotDisturbedByStrangers) {
  std::vector<Strangers> crowd;
  with_gathering_mesh(3, [&crowd](const ReservedPort& port) {
    crowd.emplace_back(port.port());
    const SteadyClock clock;
    const Nanoseconds deadline = deadline_after(clock, 10 * kSecond);
    while (!crowd[0].send("") && clock.now() < deadline) {
    }
    EXPECT_TRUE(crowd[0].send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_TRUE(
        crowd[0].send(std::string("\xff\xff\xff\xff\x01\x00\x00\x00", 8)));  // a huge length
    EXPECT_TRUE(crowd[0].send(std::string("\x40\x00\x00\x00\x01\x00\x00\x00half", 12)));
    EXPECT_TRUE(crowd[0].send(std::string(5000, '\0')));
    // More silent ones than are kept: they push each other out, not the member that comes next.
    for (size_t i = 0; i < RendezvousServer::kMaxPending + 20; ++i) EXPECT_TRUE(crowd[0].send("x"));
  });
}

TEST(MeshJoin, DropsStrangersThatKeepSilentAfterADeadline) {
  RendezvousConfig rendezvous;
  rendezvous.addresses = {parse_address("127.0.0.1", 0).value()};
  rendezvous.handshake_timeout = kSecond / 5;
  auto server = RendezvousServer::start(rendezvous, Logger());
  ASSERT_TRUE(server.ok());
  const SteadyClock clock;
  auto fd = dial_and_wait(parse_address("127.0.0.1", server.value()->port()).value(), clock,
                          deadline_after(clock, kSecond));
  ASSERT_TRUE(fd.ok());
  auto poller = Poller::create();
  ASSERT_TRUE(poller.value()->watch(fd.value().get(), 1, true, false));
  const Nanoseconds start = clock.now();
  ASSERT_EQ(poller.value()->wait(10 * kSecond).size(), 1U);
  char byte = 0;
  EXPECT_LE(recv(fd.value().get(), &byte, 1, 0), 0);
  EXPECT_GE(clock.now() - start, kSecond / 10);
}

}  // namespace
}  // namespace asyncmesh::mesh
