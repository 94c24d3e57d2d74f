// What the conformance suite does not ask of a transport, but of these engines.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/seam_pair.h"
#include "tests/support/alloc_guard.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::transport {
namespace {

using conformance::Backend;
using conformance::SeamLane;
using conformance::SeamPair;

constexpr LaneGeometry kLane{4, 1016};

Backend engine(const std::string& name) {
  UcxConfig config;
  config.tls = name == "tag_tcp" ? "tcp" : "shm";
  config.direct_stores = name != "rma_puts";
  const auto factory = name.starts_with("tag") ? &make_ucx_tag : &make_ucx_rma;
  return {.name = name,
          .make = [=](const Clock& clock, uint32_t) { return factory(config, clock); },
          .real_time = true};
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

class UcxEngineTest : public testing::TestWithParam<const char*> {
 protected:
  UcxEngineTest() : pair_(engine(GetParam())) {}
  void SetUp() override { ASSERT_TRUE(pair_.ready().ok()) << pair_.ready().text(); }

  std::unique_ptr<SeamLane> open(Epoch epoch, Sequence first = 1, LaneGeometry geometry = kLane) {
    const Status opened = pair_.open_links(epoch);
    EXPECT_TRUE(opened.ok()) << opened.text();
    auto lane = pair_.open_lane(0, 1, geometry, first);
    EXPECT_TRUE(lane.ok()) << lane.status().text();
    return lane.ok() ? std::move(lane.value()) : nullptr;
  }
  void stream(SeamLane& lane, Sequence last) {
    ASSERT_TRUE(pair_.pump_until([&] {
      lane.writer.send_up_to(last);
      lane.reader.take(0);
      return lane.writer.credit().released == last && lane.writer.sent() == last;
    }));
    ASSERT_EQ(lane.error(), "");
  }

  SeamPair pair_;
};

TEST_P(UcxEngineTest, FramesCostNoAllocation) {
  auto lane = open(1);
  ASSERT_NE(lane, nullptr);
  stream(*lane, 300);
  const test::AllocGuard guard;
  stream(*lane, 1300);
  // UCX itself was seen to allocate once in a thousand operations.
  EXPECT_LE(guard.in_thread(), 2u);
}

TEST_P(UcxEngineTest, LinksLeaveNothingBehind) {
  for (Epoch epoch = 1; epoch <= 3; ++epoch) stream(*open(epoch, epoch * 10), epoch * 10 + 5);
  const auto settle = [&] {
    pair_.close_link(0);
    pair_.close_link(1);
    pair_.pump(5000);
  };
  settle();
  const size_t before = open_descriptors();
  for (Epoch epoch = 4; epoch <= 9; ++epoch) stream(*open(epoch, epoch * 10), epoch * 10 + 5);
  settle();
  EXPECT_LE(open_descriptors(), before);
}

TEST_P(UcxEngineTest, RendezvousLinksCloseToo) {
  for (Epoch epoch = 1; epoch <= 4; ++epoch) {
    auto lane = open(epoch, 1, {2, (1 << 18) - 8});
    ASSERT_NE(lane, nullptr);
    stream(*lane, 8);
    lane->writer.send_up_to(10);  // in flight while everything closes
    pair_.pump(epoch);
  }
}

TEST_P(UcxEngineTest, AFrameLargerThanItsSlotIsRefused) {
  auto lane = open(1);
  ASSERT_NE(lane, nullptr);
  // Before the writer's first frame, so that a byte beyond its slot is still in its memory.
  EXPECT_EQ(lane->writer.send(1025), Code::kTooLarge);
}

TEST_P(UcxEngineTest, DescribesWhatItRunsOver) {
  auto lane = open(1);
  ASSERT_NE(lane, nullptr);
  stream(*lane, 5);
  const std::string text = pair_.link(0).describe();
  const std::string name = GetParam();
  EXPECT_EQ(text.rfind(name.substr(0, 3) + " over ", 0), 0u) << text;
  EXPECT_EQ(text.find("tcp/") != std::string::npos, name == "tag_tcp") << text;
  EXPECT_EQ(text.find("direct stores") != std::string::npos, name == "rma_direct") << text;
}

INSTANTIATE_TEST_SUITE_P(Engines, UcxEngineTest,
                         testing::Values("tag_tcp", "tag_shm", "rma_direct", "rma_puts"),
                         [](const auto& test) { return std::string(test.param); });

TEST(UcxFactories, RmaOverTcpIsRefusedAndSaysWhy) {
  const SteadyClock clock;
  UcxConfig config;
  config.tls = "tcp";
  const auto made = make_ucx_rma(config, clock);
  EXPECT_EQ(made.code(), Code::kUnsupported);
  EXPECT_NE(made.status().text().find("never runs over TCP"), std::string::npos);
}

TEST(UcxFactories, RmaIsRefusedWhereTheUserAllowsOnlyTcp) {
  const SteadyClock clock;
  setenv("UCX_TLS", "tcp", 1);
  const auto made = make_ucx_rma({}, clock);
  unsetenv("UCX_TLS");
  EXPECT_EQ(made.code(), Code::kUnsupported);
  EXPECT_NE(made.status().text().find("UCX_TLS=tcp"), std::string::npos) << made.status().text();
}

TEST(UcxFactories, AnUnknownChoiceIsInvalid) {
  const SteadyClock clock;
  UcxConfig config;
  config.tls = "pigeon";
  EXPECT_EQ(make_ucx_tag(config, clock).code(), Code::kInvalidArgument);
  EXPECT_EQ(make_ucx_rma(config, clock).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace asyncmesh::transport
