#include "mesh/route.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>

#include "mesh_party.h"

namespace asyncmesh::mesh {
namespace {

MeshConfig with_url(const std::string& url, const std::string& secret = "s") {
  MeshConfig config;
  config.url = url;
  config.secret = secret;
  return config;
}

// An IPv4 address of this machine that others could dial; "127.0.0.1" where there is none.
std::string outward_address() {
  std::string found = "127.0.0.1";
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    SocketAddress address;
    address.length = sizeof(sockaddr_in);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    if (!address.is_loopback()) found = address.host();
  }
  freeifaddrs(first);
  return found;
}

TEST(Route, NamesAddressAndInterface) {
  auto route = route_to("tcp://127.0.0.1:29501");
  ASSERT_TRUE(route.ok()) << route.status().text();
  EXPECT_EQ(route.value().address, "127.0.0.1");
  EXPECT_EQ(route.value().interface, "lo");
  EXPECT_TRUE(route.value().loopback);
  EXPECT_EQ(route_to("tcp://localhost:29501").value().interface, "lo");
  EXPECT_EQ(route_to("tcp://127.0.0.1").code(), Code::kInvalidArgument);
}

TEST(Endpoints, KeepToLoopbackForALoopbackUrl) {
  for (const char* url : {"tcp://127.0.0.1:5", "tcp://localhost:5", "tcp://[::1]:5"}) {
    auto endpoints = find_endpoints(with_url(url, ""));
    ASSERT_TRUE(endpoints.ok()) << url << ": " << endpoints.status().text();
    EXPECT_TRUE(endpoints.value().loopback_only) << url;
    for (const SocketAddress& address : endpoints.value().serve)
      EXPECT_TRUE(address.is_loopback()) << url;
    const SocketAddress local = endpoints.value().rendezvous.front();
    auto listener = listener_address(with_url(url), endpoints.value(), local);
    ASSERT_TRUE(listener.ok());
    EXPECT_TRUE(listener.value().is_loopback());
    EXPECT_EQ(listener.value().port(), 0);
  }
}

TEST(Endpoints, OpenToOthersOnlyWithASecret) {
  EXPECT_EQ(find_endpoints(with_url("tcp://192.0.2.7:5", "")).code(), Code::kInvalidArgument);
  auto endpoints = find_endpoints(with_url("tcp://192.0.2.7:5"));
  ASSERT_TRUE(endpoints.ok());
  EXPECT_FALSE(endpoints.value().loopback_only);
  // The address of the url where this machine has it, any other one where it has not.
  ASSERT_EQ(endpoints.value().serve.size(), 2U);
  EXPECT_EQ(endpoints.value().serve[0].host(), "192.0.2.7");
  EXPECT_EQ(endpoints.value().serve[1].port(), 5);
}

TEST(Endpoints, ListenWhereTheyAreBound) {
  MeshConfig config = with_url("tcp://192.0.2.7:5");
  config.bind_address = "127.0.0.9";
  auto endpoints = find_endpoints(config);
  ASSERT_TRUE(endpoints.ok());
  auto listener = listener_address(config, endpoints.value(), endpoints.value().rendezvous.front());
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(listener.value().host(), "127.0.0.9");
}

TEST(Endpoints, AnnounceWhatIsConfiguredElseWhatIsBoundElseTheRoute) {
  const SocketAddress local = parse_address("10.1.2.3", 99).value();
  MeshConfig config = with_url("tcp://192.0.2.7:5");
  EXPECT_EQ(announced_host(config, local).value(), "10.1.2.3");
  config.bind_address = "0.0.0.0";
  EXPECT_EQ(announced_host(config, local).value(), "10.1.2.3");
  config.bind_address = "127.0.0.9";
  EXPECT_EQ(announced_host(config, local).value(), "127.0.0.9");
  config.announce_address = "198.51.100.4";
  EXPECT_EQ(announced_host(config, local).value(), "198.51.100.4");
}

TEST(SocketAddress, KnowsLoopbackAndSameHost) {
  const auto address = [](const char* host) { return parse_address(host, 1).value(); };
  EXPECT_TRUE(address("127.3.2.1").is_loopback());
  EXPECT_TRUE(address("::1").is_loopback());
  EXPECT_TRUE(address("::ffff:127.0.0.1").is_loopback());
  EXPECT_FALSE(address("10.0.0.1").is_loopback());
  EXPECT_TRUE(address("10.0.0.1").same_host(address("::ffff:10.0.0.1")));
  EXPECT_TRUE(address("127.0.0.1").same_host(address("::1")));
  EXPECT_FALSE(address("10.0.0.1").same_host(address("10.0.0.2")));
  EXPECT_EQ(address("::ffff:10.0.0.1").host(), "10.0.0.1");
  EXPECT_FALSE(SocketAddress().same_host(SocketAddress()));
  EXPECT_EQ(parse_address("host.example", 1).code(), Code::kInvalidArgument);
}

TEST(Endpoints, JoinByAnOutwardAddress) {
  const ReservedPort port;  // of loopback; the outward one is as free
  const std::string host = outward_address();
  std::printf("over %s\n", host.c_str());
  std::vector<Member> members = join_world(3, "tcp://" + host_and_port(host, port.port()));
  for (const Member& member : members) ASSERT_TRUE(member.mesh);
  EXPECT_TRUE(members[0].mesh->peer(2).same_host);
}

}  // namespace
}  // namespace asyncmesh::mesh
