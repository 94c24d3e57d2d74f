#include "core/control_message.h"

#include <gtest/gtest.h>

namespace asyncmesh::core {
namespace {

// Every message survives the wire, and none of its prefixes or extensions is taken for it.
template <typename Message>
void expect_exact(const Message& message) {
  const Body body = encode(message);
  Message back;
  ASSERT_TRUE(decode(body, &back));
  EXPECT_EQ(encode(back), body);
  for (size_t length = 0; length < body.size(); ++length)
    EXPECT_FALSE(decode(std::span(body).first(length), &back)) << length;
  Body longer = body;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer, &back));
}

TEST(ControlMessage, EveryKindSurvivesTheWireAndNothingElseIsTakenForIt) {
  expect_exact(LinkHello{7, "tag", "first use"});
  expect_exact(LaneWant{{PortKind::kMeans, 1u << 30}, 3, 8, 4096});
  expect_exact(LaneOffer{3, 7, 21, 8, 100, Body(17, std::byte{5})});
  expect_exact(LaneRefused{3, "slots"});
  expect_exact(LaneProbe{3, 7});
  expect_exact(LaneStateReply{3, 7, {9, 8, 7}});
  expect_exact(LaneClosed{3, true});
  expect_exact(AveragerHello{2, true, 99, 17, {"rule=2", "seed=0"}});
}

TEST(ControlMessage, RefusesValuesThatNoPeerSends) {
  LinkHello hello;
  EXPECT_FALSE(decode(encode(LinkHello{0, "tag", ""}), &hello));
  LaneWant want;
  EXPECT_FALSE(decode(encode(LaneWant{{PortKind::kChannel, 1}, 0, 8, 64}), &want));
  EXPECT_FALSE(decode(encode(LaneWant{{static_cast<PortKind>(9), 1}, 1, 8, 64}), &want));
  LaneOffer offer;
  EXPECT_FALSE(decode(encode(LaneOffer{1, 1, 1, 8, 0, {}}), &offer));
  EXPECT_FALSE(decode(encode(LaneOffer{1, 1, 1, 8, transport::kSequenceMask + 1, {}}), &offer));
}

}  // namespace
}  // namespace asyncmesh::core
