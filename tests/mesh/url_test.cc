#include "mesh/url.h"

#include <gtest/gtest.h>

namespace asyncmesh::mesh {
namespace {

TEST(Url, SplitsHostAndPort) {
  auto url = parse_url("tcp://node-1.example:29501");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url.value().host, "node-1.example");
  EXPECT_EQ(url.value().port, 29501);
}

TEST(Url, TakesIpv6InBracketsWithScope) {
  auto url = parse_url("tcp://[fe80::1%eth0]:80/");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url.value().host, "fe80::1%eth0");
  EXPECT_EQ(url.value().port, 80);
}

TEST(Url, RefusesMalformedText) {
  for (const char* text : {"", "host:1", "tcp://", "tcp://host", "tcp://:1", "tcp://host:",
                           "tcp://host:x", "tcp://host:65536", "tcp://host:-1", "tcp://host:1x",
                           "tcp://::1:80", "tcp://[::1", "tcp://[::1]", "tcp://[host]:1",
                           "tcp://a b:1", "tcp://a/b:1", "tcp://user@host:1", "tcp://ho\nst:1"}) {
    EXPECT_EQ(parse_url(text).code(), Code::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_url("tcp://" + std::string(256, 'a') + ":1").code(), Code::kInvalidArgument);
}

TEST(Url, NamesAnUnknownScheme) {
  auto url = parse_url("etcd://host:2379");
  EXPECT_EQ(url.code(), Code::kUnsupported);
  EXPECT_NE(url.status().text().find("etcd"), std::string::npos);
}

TEST(Url, PutsIpv6IntoBrackets) {
  EXPECT_EQ(host_and_port("::1", 5), "[::1]:5");
  EXPECT_EQ(host_and_port("10.0.0.1", 5), "10.0.0.1:5");
}

}  // namespace
}  // namespace asyncmesh::mesh
