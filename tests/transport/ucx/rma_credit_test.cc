// Credit of the rma engine: through the arena where the writer maps it, and what that asks of
// sleeping, of merged credits, and of the change from messages to the arena.
#include "transport/ucx/rma/rma_credit.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/conformance/seam_pair.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::transport {
namespace {

using conformance::Backend;
using conformance::SeamLane;
using conformance::SeamPair;

constexpr LaneGeometry kLane{8, 248};
constexpr LaneId kFirstLane = 1;

Backend rma(bool direct) {
  const UcxConfig config{.tls = "shm", .direct_stores = direct};
  return {.name = direct ? "direct" : "puts",
          .make = [=](const Clock& clock, uint32_t) { return make_ucx_rma(config, clock); },
          .real_time = true};
}

// Side 0 writes.
class RmaCredit : public testing::TestWithParam<bool> {
 protected:
  RmaCredit() : pair_(rma(GetParam())) {}
  void SetUp() override {
    ASSERT_TRUE(pair_.ready().ok()) << pair_.ready().text();
    const Status opened = pair_.open_links(1);
    ASSERT_TRUE(opened.ok()) << opened.text();
  }

  std::unique_ptr<SeamLane> open(LaneId id, Sequence first = 1) {
    auto lane = pair_.open_lane(0, id, kLane, first);
    EXPECT_TRUE(lane.ok()) << lane.status().text();
    return lane.ok() ? std::move(lane.value()) : nullptr;
  }
  // With frame 1 and its credit, the one that is a message, exchanged.
  std::unique_ptr<SeamLane> open_used(LaneId id) {
    auto lane = open(id);
    if (lane == nullptr) return nullptr;
    send(*lane, 1);
    lane->reader.take(0);
    expect_credit(*lane, 1);
    return lane;
  }
  void send(SeamLane& lane, Sequence last) {
    lane.writer.send_up_to(last);
    ASSERT_TRUE(pair_.pump_until(
        [&] { return lane.reader.received() == last && lane.writer.sent() == last; }));
  }
  void expect_credit(SeamLane& lane, Sequence released) {
    EXPECT_TRUE(pair_.pump_until([&] { return lane.writer.credit().released == released; }));
    EXPECT_EQ(lane.error(), "");
  }
  // A credit for each frame that came.
  void credit_each(SeamLane& lane) {
    for (size_t left = lane.reader.arrivals().size(); left > 0; --left) {
      const auto keep = static_cast<uint32_t>(left - 1);
      if (GetParam()) {
        EXPECT_GE(lane.reader.take(keep), 2u) << "a credit in the arena is never refused";
      } else {
        lane.reader.take(keep);
      }
    }
  }

  bool readable(uint32_t side) {
    pollfd waiter{pair_.transport(side).event_fd(), POLLIN, 0};
    return ::poll(&waiter, 1, 0) != 0;
  }
  bool arm(uint32_t side) {
    const conformance::WallDeadline deadline(20 * conformance::kSecond);
    while (!pair_.transport(side).arm()) {
      if (deadline.passed()) return false;
      pair_.transport(side).progress();
    }
    return true;
  }
  // Within so few rounds of the other side that UCX's own keep-alive is not what woke it.
  bool woken(uint32_t side) {
    for (uint32_t round = 0; round < 2000 && !readable(side); ++round) {
      pair_.pump_side(1 - side, 1);
    }
    return readable(side);
  }
  // Both ends sleep in the end, and wake neither themselves nor each other.
  void expect_rest() {
    const conformance::WallDeadline deadline(20 * conformance::kSecond);
    for (uint32_t quiet = 0; quiet < 100; ++quiet) {
      ASSERT_FALSE(deadline.passed()) << "somebody is woken all the time";
      ASSERT_TRUE(arm(0));
      ASSERT_TRUE(arm(1));
      if (readable(0) || readable(1)) quiet = 0;
    }
  }

  SeamPair pair_;
};

TEST_P(RmaCredit, ComesAtTheFirstLookWithDirectStores) {
  if (!GetParam()) return;
  auto lane = open_used(kFirstLane);
  ASSERT_NE(lane, nullptr);
  for (Sequence sequence = 2; sequence <= 40; ++sequence) {
    send(*lane, sequence);
    lane->reader.take(0);
    pair_.pump_side(0, 1);
    ASSERT_EQ(lane->writer.credit().released, sequence);
  }
  EXPECT_EQ(lane->error(), "");
}

TEST_P(RmaCredit, MergedCreditsWakeASleeperAndAreAllCounted) {
  auto lane = open_used(kFirstLane);
  ASSERT_NE(lane, nullptr);
  for (Sequence last = kLane.slots; last <= 20 * kLane.slots; last += kLane.slots) {
    send(*lane, last);
    ASSERT_TRUE(arm(0));
    credit_each(*lane);
    ASSERT_TRUE(woken(0)) << last;
    credit_each(*lane);
    lane->reader.take(0);
    expect_credit(*lane, last);
    // All credits are accounted for: the next notice needs no answer.
    ASSERT_TRUE(arm(0));
    pair_.pump_side(1, 100);
    ASSERT_FALSE(readable(0)) << last;
  }
  expect_rest();
}

TEST_P(RmaCredit, ArmingSeesACreditThatIsThere) {
  auto lane = open_used(kFirstLane);
  ASSERT_NE(lane, nullptr);
  for (Sequence sequence = 2; sequence <= 40; ++sequence) {
    send(*lane, sequence);
    lane->reader.take(0);
    const bool armed = pair_.transport(0).arm();
    if (GetParam()) {
      EXPECT_FALSE(armed);
    }
    if (armed) {
      ASSERT_TRUE(woken(0));
    }
    expect_credit(*lane, sequence);
  }
}

TEST_P(RmaCredit, ALaneThatClosesWithUnseenCreditDisturbsNoSleeper) {
  auto other = open_used(kFirstLane);
  ASSERT_NE(other, nullptr);
  for (LaneId id = 2; id <= 6; ++id) {
    auto lane = open_used(id);
    ASSERT_NE(lane, nullptr);
    send(*lane, 4);
    credit_each(*lane);
    lane->writer.close();
    lane->reader.take(0);
    expect_rest();
    lane->reader.close();
    send(*other, id);
    other->reader.take(0);
    expect_credit(*other, id);
    EXPECT_EQ(lane->error(), "");
  }
  expect_rest();
}

// The reader owes credit from before the writer came; its newer credit must not be undone by it.
TEST_P(RmaCredit, OwedCreditNeverComesLast) {
  constexpr Sequence kFirst = 11;
  auto lane = open(kFirstLane, kFirst);
  ASSERT_NE(lane, nullptr);
  ASSERT_EQ(lane->reader.inbound().send_credit({kFirst - 1, kFirst - 1, kFirst - 1}), Code::kOk);
  lane->writer.send_up_to(kFirst + 3);
  ASSERT_TRUE(pair_.pump_until([&] {
    lane->reader.take(0);
    return lane->writer.credit().released == kFirst + 3;
  }));
  pair_.pump(200);
  EXPECT_EQ(lane->writer.credit().released, kFirst + 3);
  EXPECT_EQ(lane->error(), "");
}

TEST_P(RmaCredit, OwedCreditComes) {
  constexpr Sequence kFirst = 11;
  SeamLane lane(1, kLane, kFirst);
  ASSERT_TRUE(lane.writer.attach(pair_.transport(0)).ok());
  auto inbound = pair_.link(1).open_inbound(kFirstLane, kLane, kFirst, lane.reader);
  ASSERT_TRUE(inbound.ok());
  lane.reader.open(std::move(inbound.value()));
  ASSERT_EQ(lane.reader.inbound().send_credit({9, 8, 7}), Code::kOk);
  struct Sink final : OutboundSink {
    void on_sent(Sequence) override {}
    void on_credit(const Credit& credit) override { newest = credit; }
    Credit newest;
  } sink;
  auto outbound =
      pair_.link(0).open_outbound(kFirstLane, kLane, lane.reader.inbound().offer(), sink);
  ASSERT_TRUE(outbound.ok()) << outbound.status().text();
  EXPECT_TRUE(pair_.pump_until([&] { return sink.newest == Credit{9, 8, 7}; }));
}

INSTANTIATE_TEST_SUITE_P(Engines, RmaCredit, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "direct" : "puts");
});

TEST(RmaCreditBlock, CountsOfDifferentCreditsKeepTheirOrder) {
  constexpr uint64_t kCredits = 200'000;
  alignas(64) std::byte memory[sizeof(RmaCreditBlock)] = {};
  auto& block = *reinterpret_cast<RmaCreditBlock*>(memory);
  EXPECT_FALSE(block.read_here());
  block.announce();
  EXPECT_TRUE(block.read_here());
  std::thread reader([&block] {
    for (uint64_t number = 1; number <= kCredits; ++number) {
      block.store({3 * number + 2, 3 * number + 1, 3 * number}, number);
    }
  });
  uint64_t wrong = 0;
  for (uint64_t number = 0; number < kCredits;) {
    number = block.number();
    const Credit credit = block.load();
    const bool ordered = credit.released <= credit.taken && credit.taken <= credit.received;
    if (!ordered || credit.released < 3 * number) ++wrong;
  }
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace asyncmesh::transport
