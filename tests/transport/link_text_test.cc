#include <gtest/gtest.h>

#include "transport/paced/paced.h"

namespace asyncmesh::transport {
namespace {

TEST(ParseLink, UnderstandsBitsAndBytesPerSecond) {
  const auto rate = [](std::string_view text) {
    const auto link = parse_link(text);
    EXPECT_TRUE(link.ok()) << text;
    return link.ok() ? link.value().bytes_per_second : 0;
  };
  EXPECT_EQ(rate("8kbit,0ms"), 1'000u);
  EXPECT_EQ(rate("200Mbit,5ms"), 25'000'000u);
  EXPECT_EQ(rate("1Gbit,100us"), 125'000'000u);
  EXPECT_EQ(rate("2.5Gbit"), 312'500'000u);
  EXPECT_EQ(rate("3kB"), 3'000u);
  EXPECT_EQ(rate("25MB,1ms"), 25'000'000u);
  EXPECT_EQ(rate("1GB,1ns"), 1'000'000'000u);
  EXPECT_EQ(rate("none,1ms"), 0u);
}

TEST(ParseLink, UnderstandsDelays) {
  const auto delay = [](std::string_view text) {
    const auto link = parse_link(text);
    EXPECT_TRUE(link.ok()) << text;
    return link.ok() ? link.value().latency : -1;
  };
  EXPECT_EQ(delay("1Gbit,7ns"), 7);
  EXPECT_EQ(delay("1Gbit,100us"), 100'000);
  EXPECT_EQ(delay("1Gbit,1.5ms"), 1'500'000);
  EXPECT_EQ(delay("1Gbit,2s"), 2'000'000'000);
  EXPECT_EQ(delay("1Gbit"), 0);
}

TEST(ParseLink, NoneIsTheBareMachine) {
  const auto link = parse_link("none");
  ASSERT_TRUE(link.ok());
  EXPECT_TRUE(link.value().none());
}

TEST(ParseLink, BurstIsAMillisecondOfTheRateWithinALimit) {
  EXPECT_EQ(parse_link("80Mbit").value().burst_bytes, 10'000u);
  EXPECT_EQ(parse_link("10Gbit").value().burst_bytes, 65'536u);
}

TEST(ParseLink, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"",
                           ",",
                           "200",
                           "Mbit",
                           "200Mbit,",
                           "200Mbit,5",
                           "200mbit,5ms",
                           "-1Mbit,5ms",
                           "0Mbit,5ms",
                           "200Mbit,-5ms",
                           "200Mbit,5ms,",
                           "200Mbit,5ms,1",
                           "200Mbit 5ms",
                           "nanMbit",
                           "infGbit",
                           "1e300GB",
                           "200Mbit,61s",
                           "none,none",
                           " 200Mbit,5ms",
                           "200Mbit, 5ms",
                           "0x10Mbit"}) {
    const auto link = parse_link(text);
    EXPECT_EQ(link.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(link.status().text().find("link"), std::string::npos) << text;
  }
}

TEST(ParseLink, FormatsWhatItParses) {
  for (const char* text : {"200Mbit,5ms", "1Gbit,100us", "8kbit,1s", "2.5Gbit,1.5ms", "none,2ms",
                           "none", "1Gbit,0ns"}) {
    EXPECT_EQ(format_link(parse_link(text).value()), text);
  }
}

}  // namespace
}  // namespace asyncmesh::transport
