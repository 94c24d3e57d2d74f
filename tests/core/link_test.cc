// Epochs, offers, watchdogs and resets, by hand.
#include "core/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/link_pair.h"

namespace asyncmesh::core::test {
namespace {

TEST(Link, CarriesFramesWhicheverEndOpensFirst) {
  for (const bool writer_first : {true, false}) {
    LinkPair pair;
    TestPort writer(pair, 0, true);
    TestPort reader(pair, 1, false);
    ASSERT_TRUE((writer_first ? writer : reader).open().ok());
    pair.settle();
    ASSERT_TRUE((writer_first ? reader : writer).open().ok());
    ASSERT_EQ(writer.send(41), Code::kOk);
    pair.settle();
    uint64_t value = 0;
    ASSERT_EQ(reader.receive(&value), Code::kOk);
    EXPECT_EQ(value, 41u);
    EXPECT_EQ(pair.link(0).epoch_st(), 1);
    EXPECT_EQ(pair.link(1).epoch_st(), 1);
  }
}

TEST(Link, KeepsFramesSentBeforeTheOtherEndOpened) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  ASSERT_TRUE(writer.open().ok());
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(writer.send(i), Code::kOk);
  EXPECT_EQ(writer.send(4), Code::kAgain);
  pair.settle();
  EXPECT_FALSE(pair.links(0).delivered_st());
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(reader.open().ok());
  pair.settle();
  for (uint64_t i = 0; i < 4; ++i) {
    uint64_t value = 99;
    ASSERT_EQ(reader.receive(&value), Code::kOk);
    EXPECT_EQ(value, i);
  }
  pair.settle();
  EXPECT_TRUE(pair.links(0).delivered_st());
}

TEST(Link, RefusesASecondPortOfTheSameKey) {
  LinkPair pair;
  TestPort first(pair, 0, true);
  TestPort second(pair, 0, true);
  ASSERT_TRUE(first.open().ok());
  const Status status = second.open();
  EXPECT_EQ(status.code(), Code::kInvalidState);
  EXPECT_NE(status.text().find("channel 7 to rank 1"), std::string::npos) << status.text();
}

TEST(Link, TellsBothEndsOfAMismatch) {
  LinkPair pair;
  TestPort writer(pair, 0, true, 4, 256);
  TestPort reader(pair, 1, false, 4, 512);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  pair.settle();
  EXPECT_EQ(writer.send(1), Code::kPeerLost);
  uint64_t value = 0;
  EXPECT_EQ(reader.receive(&value), Code::kAgain);
  EXPECT_EQ(reader.port->inbound_state(0), LaneState::kDead);
  for (const TestPort* port : {&writer, &reader}) {
    const Status why = port->failure.explain(Code::kPeerLost);
    EXPECT_EQ(why.code(), Code::kMismatch);
    EXPECT_NE(why.text().find("256"), std::string::npos) << why.text();
    EXPECT_NE(why.text().find("512"), std::string::npos) << why.text();
  }
}

TEST(Link, LetsTheReaderHaveMoreSlots) {
  LinkPair pair;
  TestPort writer(pair, 0, true, 4);
  TestPort reader(pair, 1, false, 16);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  for (uint64_t i = 0; i < 40; ++i) {
    while (writer.send(i) == Code::kAgain) {
      pair.settle();
      uint64_t value = 0;
      while (reader.receive(&value) == Code::kOk) {
      }
    }
  }
  pair.settle();
  EXPECT_EQ(pair.link(0).counters_st().resets, 0u);
}

TEST(Link, AClosedEndCancelsTheOther) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  ASSERT_EQ(writer.send(5), Code::kOk);
  pair.settle();
  writer.close();
  pair.settle();
  // What had arrived is still there.
  uint64_t value = 0;
  ASSERT_EQ(reader.receive(&value), Code::kOk);
  EXPECT_EQ(value, 5u);
  EXPECT_EQ(reader.port->inbound_state(0), LaneState::kDead);
  EXPECT_EQ(reader.failure.explain(Code::kPeerLost).code(), Code::kCanceled);
}

// Closed before anything has moved, or with the frames on their way: all of it arrives, and only
// then the other end learns of the close.
TEST(Link, WhatWasSentBeforeACloseArrives) {
  for (const bool held : {false, true}) {
    LinkPair pair;
    TestPort writer(pair, 0, true);
    TestPort reader(pair, 1, false);
    ASSERT_TRUE(writer.open().ok());
    ASSERT_TRUE(reader.open().ok());
    if (!held) pair.settle();
    pair.hold_control = held;
    for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(writer.send(i), Code::kOk);
    writer.close();
    EXPECT_FALSE(pair.links(0).delivered_st());
    const std::weak_ptr<Port> port = writer.port;
    writer.port.reset();
    EXPECT_FALSE(port.expired());
    pair.hold_control = false;
    pair.settle();
    for (uint64_t i = 0; i < 3; ++i) {
      uint64_t value = 99;
      ASSERT_EQ(reader.receive(&value), Code::kOk);
      EXPECT_EQ(value, i);
    }
    EXPECT_EQ(reader.port->inbound_state(0), LaneState::kDead);
    EXPECT_EQ(reader.failure.explain(Code::kPeerLost).code(), Code::kCanceled);
    EXPECT_TRUE(pair.links(0).delivered_st());
    EXPECT_TRUE(port.expired());
  }
}

// The close travels on another path than the frames and must not overtake them through faults.
TEST(Link, WhatWasSentBeforeACloseArrivesThroughFaults) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    transport::FaultyConfig faults;
    faults.seed = seed * 100;
    faults.drop = 0.1;
    faults.delay = 0.2;
    faults.corrupt = 0.1;
    faults.drop_credit = 0.2;
    faults.cut = 0.1;
    faults.max_faults = 10;
    LinkPair pair(&faults);
    for (uint64_t round = 0; round < 20; ++round) {
      TestPort writer(pair, 0, true);
      TestPort reader(pair, 1, false);
      ASSERT_TRUE(writer.open().ok());
      ASSERT_TRUE(reader.open().ok());
      for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(writer.send(4 * round + i), Code::kOk);
      writer.close();
      uint64_t got = 4 * round;
      for (int i = 0; i < 20'000 && reader.port->inbound_state(0) != LaneState::kDead; ++i) {
        pair.clock.advance(500'000);
        pair.step();
      }
      for (uint64_t value = 0; reader.receive(&value) == Code::kOk; ++got) ASSERT_EQ(value, got);
      ASSERT_EQ(got, 4 * round + 4) << "seed " << seed;
    }
  }
}

// Ports of one key that follow each other pair with the peer's in order, though the peer is late.
TEST(Link, PortsOfOneKeyAreTakenInTurn) {
  LinkPair pair;
  for (uint64_t i = 0; i < 3; ++i) {
    TestPort writer(pair, 0, true);
    ASSERT_TRUE(writer.open().ok());
    ASSERT_EQ(writer.send(i), Code::kOk);
  }
  {
    TestPort silent(pair, 0, true);
    ASSERT_TRUE(silent.open().ok());
  }
  pair.settle();
  for (uint64_t i = 0; i < 3; ++i) {
    TestPort reader(pair, 1, false);
    ASSERT_TRUE(reader.open().ok());
    pair.settle();
    uint64_t value = 99;
    ASSERT_EQ(reader.receive(&value), Code::kOk);
    EXPECT_EQ(value, i);
    EXPECT_EQ(reader.receive(&value), Code::kAgain);
    EXPECT_EQ(reader.port->inbound_state(0), LaneState::kDead);
  }
  // Nothing is left of the one that sent nothing.
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(reader.open().ok());
  pair.settle();
  EXPECT_NE(reader.port->inbound_state(0), LaneState::kDead);
  EXPECT_TRUE(pair.links(0).delivered_st());
}

TEST(Link, AClosedPortGoesWithItsPeer) {
  enum class End { kReaderCloses, kMismatch, kLost };
  for (const End end : {End::kReaderCloses, End::kMismatch, End::kLost}) {
    LinkPair pair;
    TestPort writer(pair, 0, true);
    ASSERT_TRUE(writer.open().ok());
    ASSERT_EQ(writer.send(1), Code::kOk);
    writer.close();
    const std::weak_ptr<Port> port = writer.port;
    writer.port.reset();
    pair.pass(10 * LinkPair::kPeerTimeout);
    EXPECT_FALSE(port.expired());
    TestPort reader(pair, 1, false, 4, end == End::kMismatch ? 512 : 256);
    if (end == End::kLost) {
      pair.links(0).end_st(1, Status(Code::kPeerLost, "killed"));
    } else {
      ASSERT_TRUE(reader.open().ok());
    }
    if (end == End::kReaderCloses) reader.close();
    pair.settle();
    EXPECT_TRUE(port.expired());
    EXPECT_TRUE(pair.links(0).delivered_st());
  }
}

// An averager that was destroyed before its lanes had met the peer's must not feed the peer's next.
TEST(Link, DeclinedWantsAreOfEarlierAveragers) {
  const PortKey key{PortKind::kRounds, 3};
  LinkPair pair;
  TestPort old(pair, 0, true);
  ASSERT_TRUE(old.open(key).ok());
  ASSERT_EQ(old.send(1), Code::kOk);
  old.close();
  const std::weak_ptr<Port> port = old.port;
  old.port.reset();
  const uint32_t lanes_from = pair.links(0).next_instance_st();
  TestPort fresh(pair, 0, true);
  ASSERT_TRUE(fresh.open(key).ok());
  ASSERT_EQ(fresh.send(2), Code::kOk);
  pair.settle();
  EXPECT_FALSE(port.expired());
  pair.links(1).decline_st(0, key, lanes_from);
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(reader.open(key).ok());
  pair.settle();
  uint64_t value = 0;
  ASSERT_EQ(reader.receive(&value), Code::kOk);
  EXPECT_EQ(value, 2u);
  EXPECT_TRUE(port.expired());
  reader.close();
  // While there is none, whoever comes is told at once; what is another's is kept.
  pair.links(1).decline_st(0, key, UINT32_MAX);
  fresh.close();
  TestPort late(pair, 0, true);
  TestPort other(pair, 0, true);
  ASSERT_TRUE(late.open(key).ok());
  ASSERT_TRUE(other.open({PortKind::kRounds, 4}).ok());
  pair.settle();
  EXPECT_EQ(late.send(3), Code::kPeerLost);
  EXPECT_EQ(late.failure.explain(Code::kPeerLost).code(), Code::kCanceled);
  EXPECT_EQ(other.send(3), Code::kOk);
}

TEST(Link, AnAveragerHearsOfACloseThatCameBeforeIt) {
  for (const PortKind kind : {PortKind::kRounds, PortKind::kMeans}) {
    LinkPair pair;
    TestPort writer(pair, 0, true);
    ASSERT_TRUE(writer.open({kind, 3}).ok());
    writer.close();
    pair.settle();
    TestPort reader(pair, 1, false);
    ASSERT_TRUE(reader.open({kind, 3}).ok());
    EXPECT_EQ(reader.port->inbound_state(0), LaneState::kDead);
    EXPECT_EQ(reader.failure.explain(Code::kPeerLost).code(), Code::kCanceled);
  }
}

TEST(Link, WhoDeclinesAllKeepsNobodyWaiting) {
  LinkPair pair;
  TestPort before(pair, 0, true);
  ASSERT_TRUE(before.open().ok());
  ASSERT_EQ(before.send(1), Code::kOk);
  pair.settle();
  EXPECT_FALSE(pair.links(0).delivered_st());
  pair.links(1).decline_all_st();
  TestPort after(pair, 0, true);
  ASSERT_TRUE(after.open({PortKind::kChannel, 8}).ok());
  ASSERT_EQ(after.send(1), Code::kOk);
  pair.settle();
  EXPECT_TRUE(pair.links(0).delivered_st());
  for (const TestPort* port : {&before, &after})
    EXPECT_EQ(port->failure.explain(Code::kPeerLost).code(), Code::kCanceled);
}

// A peer that opens nothing does not make closed ports pile up.
TEST(Link, ClosedPortsOfAnAbsentPeerAreBounded) {
  LinkPair pair;
  std::vector<std::weak_ptr<Port>> ports;
  for (uint64_t i = 0; i < 100; ++i) {
    TestPort writer(pair, 0, true);
    ASSERT_TRUE(writer.open().ok());
    ASSERT_EQ(writer.send(i), Code::kOk);
    ports.push_back(writer.port);
  }
  pair.settle();
  const auto left =
      std::count_if(ports.begin(), ports.end(), [](const auto& port) { return !port.expired(); });
  EXPECT_EQ(left, 64);
  EXPECT_TRUE(ports.front().expired());
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(reader.open().ok());
  pair.settle();
  uint64_t value = 0;
  ASSERT_EQ(reader.receive(&value), Code::kOk);
  EXPECT_EQ(value, 36u);  // the oldest that was kept
}

TEST(Link, AReopenedPortIsNotItsPredecessor) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(writer.send(i), Code::kOk);
  pair.settle();
  writer.close();
  TestPort again(pair, 0, true);
  ASSERT_TRUE(again.open().ok());
  ASSERT_EQ(again.send(70), Code::kOk);
  pair.settle();
  // The old reader gets nothing of it; a new one everything.
  uint64_t value = 0;
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(reader.receive(&value), Code::kOk);
    EXPECT_EQ(value, i);
  }
  EXPECT_EQ(reader.receive(&value), Code::kAgain);
  reader.close();
  TestPort reader_again(pair, 1, false);
  ASSERT_TRUE(reader_again.open().ok());
  pair.settle();
  ASSERT_EQ(reader_again.receive(&value), Code::kOk);
  EXPECT_EQ(value, 70u);
}

TEST(Link, ASuspectPeerGetsNothingAndResumesInANewEpoch) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  pair.settle();
  pair.links(0).suspend_st(1);
  ASSERT_EQ(writer.send(1), Code::kOk);
  pair.settle();
  uint64_t value = 0;
  EXPECT_EQ(reader.receive(&value), Code::kAgain);
  pair.links(0).resume_st(1);
  pair.settle();
  ASSERT_EQ(reader.receive(&value), Code::kOk);
  EXPECT_EQ(value, 1u);
  EXPECT_GE(pair.link(0).epoch_st(), 2);
  EXPECT_EQ(pair.link(0).epoch_st(), pair.link(1).epoch_st());
}

// Both ends suspected each other before first use and got their ports meanwhile: neither ever
// opened.
TEST(Link, APortAddedWhileBothEndsWereSuspectConnects) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  TestPort reader(pair, 1, false);
  for (Rank rank : {0u, 1u}) pair.links(rank).suspend_st(1 - rank);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  ASSERT_EQ(writer.send(1), Code::kOk);
  pair.settle();
  for (Rank rank : {0u, 1u}) pair.links(rank).resume_st(1 - rank);
  pair.pass(20 * LinkPair::kPeerTimeout);
  uint64_t value = 0;
  ASSERT_EQ(reader.receive(&value), Code::kOk);
  EXPECT_EQ(value, 1u);
}

TEST(Link, BothEndsResettingAtOnceAgree) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  pair.settle();
  pair.hold_control = true;
  for (Rank rank : {0u, 1u, 0u}) {
    pair.links(rank).suspend_st(1 - rank);
    pair.links(rank).resume_st(1 - rank);
  }
  ASSERT_EQ(writer.send(8), Code::kOk);
  pair.hold_control = false;
  pair.pass(50'000'000);
  uint64_t value = 0;
  ASSERT_EQ(reader.receive(&value), Code::kOk);
  EXPECT_EQ(value, 8u);
  EXPECT_EQ(pair.link(0).epoch_st(), pair.link(1).epoch_st());
  EXPECT_EQ(pair.link(0).state_st(), Link::State::kOpen);
  EXPECT_EQ(pair.link(1).state_st(), Link::State::kOpen);
}

TEST(Link, ALostPeerFailsItsLanesWithTheReason) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  ASSERT_TRUE(writer.open().ok());
  pair.links(0).end_st(1, Status(Code::kPeerLost, "rank 1 is lost: killed"));
  EXPECT_EQ(writer.send(1), Code::kPeerLost);
  EXPECT_EQ(writer.failure.explain(Code::kPeerLost).text(), "rank 1 is lost: killed");
  // A port that is opened later fails at once, with the same reason.
  TestPort late(pair, 0, true);
  ASSERT_TRUE(late.open({PortKind::kChannel, 8}).ok());
  EXPECT_EQ(late.failure.explain(Code::kPeerLost).text(), "rank 1 is lost: killed");
}

TEST(Link, MalformedMessagesAreCountedAndIgnored) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  pair.settle();
  const Body garbage(5, std::byte{0xee});
  for (uint16_t type = 0; type < 12; ++type)
    pair.links(1).on_message_st(0, static_cast<MessageType>(type), garbage);
  EXPECT_GE(pair.link(1).counters_st().malformed, 7u);
  ASSERT_EQ(writer.send(3), Code::kOk);
  pair.settle();
  uint64_t value = 0;
  EXPECT_EQ(reader.receive(&value), Code::kOk);
}

TEST(Link, AnotherEngineAtThePeerIsAMismatch) {
  LinkPair pair;
  TestPort writer(pair, 0, true);
  ASSERT_TRUE(writer.open().ok());
  pair.links(0).on_message_st(1, MessageType::kLinkHello, encode(LinkHello{3, "rma", "test"}));
  EXPECT_EQ(writer.failure.explain(Code::kPeerLost).code(), Code::kMismatch);
}

// Every fault at once, both directions, many resets: everything arrives once and in order.
TEST(Link, FaultsEndInReplay) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    transport::FaultyConfig faults;
    faults.seed = seed * 100;
    faults.drop = 0.01;
    faults.duplicate = 0.05;
    faults.delay = 0.05;
    faults.corrupt = 0.01;
    faults.drop_credit = 0.05;
    faults.cut = 0.01;
    faults.max_faults = 300;
    LinkPair pair(&faults);
    TestPort writer(pair, 0, true);
    TestPort reader(pair, 1, false);
    TestPort back_writer(pair, 1, true);
    TestPort back_reader(pair, 0, false);
    ASSERT_TRUE(writer.open().ok());
    ASSERT_TRUE(reader.open().ok());
    ASSERT_TRUE(back_writer.open({PortKind::kChannel, 9}).ok());
    ASSERT_TRUE(back_reader.open({PortKind::kChannel, 9}).ok());
    constexpr uint64_t kFrames = 500;
    uint64_t sent[2] = {0, 0};
    uint64_t got[2] = {0, 0};
    for (int round = 0; round < 200'000 && (got[0] < kFrames || got[1] < kFrames); ++round) {
      if (sent[0] < kFrames && writer.send(sent[0]) == Code::kOk) ++sent[0];
      if (sent[1] < kFrames && back_writer.send(sent[1]) == Code::kOk) ++sent[1];
      pair.clock.advance(500'000);
      pair.step();
      uint64_t value = 0;
      while (reader.receive(&value) == Code::kOk) ASSERT_EQ(value, got[0]++);
      while (back_reader.receive(&value) == Code::kOk) ASSERT_EQ(value, got[1]++);
    }
    EXPECT_EQ(got[0], kFrames) << "seed " << seed;
    EXPECT_EQ(got[1], kFrames) << "seed " << seed;
    EXPECT_GT(pair.link(0).counters_st().resets + pair.link(1).counters_st().resets, 0u);
  }
}

// A transport that accepts everything and moves nothing.
TEST(Link, GivesUpLoudlyWhenResetsMoveNothing) {
  transport::FaultyConfig faults;
  faults.drop = 1.0;
  LinkPair pair(&faults);
  TestPort writer(pair, 0, true);
  TestPort reader(pair, 1, false);
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(reader.open().ok());
  ASSERT_EQ(writer.send(1), Code::kOk);
  pair.pass(20 * LinkPair::kPeerTimeout);
  EXPECT_EQ(pair.link(0).state_st(), Link::State::kEnded);
  EXPECT_EQ(writer.failure.explain(Code::kPeerLost).code(), Code::kLinkError);
  const LinkTimers timers = LinkTimers::from(LinkPair::kPeerTimeout);
  EXPECT_GE(pair.link(0).counters_st().resets, timers.give_up_resets);
}

}  // namespace
}  // namespace asyncmesh::core::test
