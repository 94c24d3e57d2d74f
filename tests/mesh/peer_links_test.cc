// Connections between peers, both ends driven by hand in one thread.
#include "mesh/peer_links.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "mesh/messages.h"
#include "mesh_party.h"

namespace asyncmesh::mesh {
namespace {

struct Side {
  std::unique_ptr<Poller> poller;
  std::unique_ptr<PeerLinks> links;
  Identity self;
  std::vector<std::byte> address;

  Side(Rank rank, const Logger& logger = {}) : address(100 + rank, static_cast<std::byte>(rank)) {
    poller = std::move(Poller::create().value());
    Digest key;
    EXPECT_TRUE(key_from_secret("s", &key));
    links = std::make_unique<PeerLinks>(*poller, key, logger);
    self.rank = rank;
    self.replicas = 2;
    self.replica = rank;
    fill_in_process(self);
    self.announce_host = "127.0.0.1";
    EXPECT_TRUE(sha256({address}, &self.address_digest));
    EXPECT_TRUE(links->listen(parse_address("127.0.0.1", 0).value(), &self).ok());
    links->identify(self, address);
  }
  void step() {
    const SteadyClock clock;
    std::vector<uint64_t> tokens;
    for (const epoll_event& event : poller->wait(kSecond / 1000)) tokens.push_back(event.data.u64);
    for (const uint64_t token : tokens) links->on_event(token, clock.now());
    links->advance(clock.now());
  }
};

template <typename Done>
bool drive(Side& a, Side& b, Done done, Nanoseconds limit = 10 * kSecond) {
  const SteadyClock clock;
  for (const Nanoseconds deadline = clock.now() + limit; clock.now() < deadline;) {
    a.step();
    b.step();
    if (done()) return true;
  }
  return false;
}

TEST(PeerLinks, ConnectWhicheverIsPublishedFirst) {
  Side low(0);
  Side high(1);
  high.links->publish({low.self, high.self});
  // The dialer is through with its handshake before the other knows who belongs to the mesh.
  drive(
      low, high, [] { return false; }, kSecond / 10);
  EXPECT_FALSE(low.links->complete());
  low.links->publish({low.self, high.self});
  ASSERT_TRUE(drive(low, high, [&] { return low.links->complete() && high.links->complete(); }));
  JoinedMesh joined;
  joined.poller = std::move(Poller::create().value());
  ASSERT_TRUE(low.links->hand_over(&joined).ok());
  EXPECT_EQ(joined.addresses[1], high.address);
  ASSERT_TRUE(joined.peers[1]);
  EXPECT_EQ(joined.peers[1]->peer().rank, 1U);
  EXPECT_TRUE(joined.peers[1]->same_host());
}

TEST(PeerLinks, AreNotDisturbedByStrangers) {
  Side low(0);
  const SteadyClock clock;
  std::vector<ForkSafeFd> strangers;
  for (size_t i = 0; i < PeerLinks::kMaxPending + 10; ++i) {
    auto fd = dial_and_wait(parse_address("127.0.0.1", low.self.port).value(), clock,
                            clock.now() + kSecond);
    ASSERT_TRUE(fd.ok());
    const std::string noise(i % 40, static_cast<char>(i));
    static_cast<void>(send(fd.value().get(), noise.data(), noise.size(), MSG_NOSIGNAL));
    strangers.push_back(std::move(fd.value()));
    low.step();
  }
  Side high(1);
  for (Side* side : {&low, &high}) side->links->publish({low.self, high.self});
  EXPECT_TRUE(drive(low, high, [&] { return low.links->complete() && high.links->complete(); }));
}

TEST(PeerLinks, RefuseAProcessThatWasNotPublished) {
  LogLines lines;
  Side low(0, lines.logger());
  Side high(1);
  Identity other = high.self;
  other.incarnation += 1;
  low.links->publish({low.self, other});
  high.links->publish({low.self, high.self});
  EXPECT_TRUE(drive(low, high,
                    [&] {
                      return high.links->missing().find("is not the process that joined") !=
                             std::string::npos;
                    }))
      << high.links->missing() << low.links->missing();
  EXPECT_FALSE(low.links->complete());
  EXPECT_TRUE(lines.contains("is not the process that joined"));
}

TEST(PeerLinks, RefuseAnotherAddressThanAnnounced) {
  Side low(0);
  Side high(1);
  high.address[0] = std::byte{0xee};
  high.links->identify(high.self, high.address);
  for (Side* side : {&low, &high}) side->links->publish({low.self, high.self});
  EXPECT_TRUE(drive(low, high, [&] {
    return low.links->missing().find("transport address") != std::string::npos;
  }));
}

TEST(PeerLinks, DialAgainAfterALoss) {
  Side low(0);
  Side high(1);
  for (Side* side : {&low, &high}) side->links->publish({low.self, high.self});
  ASSERT_TRUE(drive(low, high, [&] { return low.links->complete() && high.links->complete(); }));
  const uint16_t port = low.self.port;
  low.links->reset();
  ASSERT_TRUE(drive(low, high, [&] { return !high.links->complete(); }));
  SocketAddress address = parse_address("127.0.0.1", port).value();
  ASSERT_TRUE(low.links->listen(address, &low.self).ok());
  low.links->publish({low.self, high.self});
  EXPECT_TRUE(drive(low, high, [&] { return low.links->complete() && high.links->complete(); }));
}

TEST(PeerLinks, NameWhoIsMissingAndWhy) {
  Side low(0);
  Side high(1);
  Identity gone = low.self;
  low.links->reset();
  high.links->publish({gone, high.self});
  EXPECT_TRUE(drive(low, high, [&] {
    return high.links->missing().find("Connection refused") != std::string::npos;
  }));
  EXPECT_NE(high.links->missing().find("rank 0 ("), std::string::npos) << high.links->missing();
}

}  // namespace
}  // namespace asyncmesh::mesh
