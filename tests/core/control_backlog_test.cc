#include "core/control_backlog.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

namespace asyncmesh::core {
namespace {

constexpr auto kType = MessageType::kLaneClosed;
Body body(uint8_t number) { return {std::byte{number}}; }

// A channel of which a test says how many messages it still takes.
struct Channel {
  size_t room = 0;
  Code refusal = Code::kAgain;
  std::vector<std::pair<Rank, uint8_t>> taken;

  Code operator()(Rank to, MessageType, const Body& message) {
    if (taken.size() >= room) return refusal;
    taken.emplace_back(to, static_cast<uint8_t>(message.front()));
    return Code::kOk;
  }
};

TEST(ControlBacklog, KeepsTheOrderOfAPeerUntilAllAreTaken) {
  ControlBacklog backlog;
  Channel channel;
  for (uint8_t i = 0; i < 3; ++i) backlog.put_st(7, kType, body(i));
  EXPECT_EQ(backlog.drain_st(std::ref(channel)), 0u);
  channel.room = 2;
  EXPECT_EQ(backlog.drain_st(std::ref(channel)), 2u);
  EXPECT_TRUE(backlog.waits_for_st(7));
  channel.room = 9;
  EXPECT_EQ(backlog.drain_st(std::ref(channel)), 1u);
  EXPECT_FALSE(backlog.waits_for_st(7));
  EXPECT_EQ(channel.taken, (std::vector<std::pair<Rank, uint8_t>>{{7, 0}, {7, 1}, {7, 2}}));
  EXPECT_EQ(backlog.deferred_st(), 3u);
}

TEST(ControlBacklog, OnePeerThatDoesNotReadHoldsUpNoOther) {
  ControlBacklog backlog;
  backlog.put_st(1, kType, body(1));
  backlog.put_st(2, kType, body(2));
  const auto send = [](Rank to, MessageType, const Body&) {
    return to == 1 ? Code::kAgain : Code::kOk;
  };
  EXPECT_EQ(backlog.drain_st(send), 1u);
  EXPECT_TRUE(backlog.waits_for_st(1));
  EXPECT_FALSE(backlog.waits_for_st(2));
}

TEST(ControlBacklog, ForgetsWhatIsForAPeerThatIsLost) {
  ControlBacklog backlog;
  Channel channel;
  channel.refusal = Code::kPeerLost;
  backlog.put_st(1, kType, body(1));
  backlog.put_st(1, kType, body(2));
  EXPECT_EQ(backlog.drain_st(std::ref(channel)), 2u);
  EXPECT_FALSE(backlog.waits_for_st(1));
  EXPECT_TRUE(channel.taken.empty());
}

}  // namespace
}  // namespace asyncmesh::core
