// Members that finish, are lost, resume later, or send what nobody of ours would.
#include <gtest/gtest.h>

#include <cstring>

#include "averaging/replicas.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;

TEST(Membership, AnOpportunisticGroupGoesOnWithoutALostMember) {
  Replicas replicas(3, opportunistic(1.0, 1), {1});
  for (uint32_t r = 0; r < 3; ++r) replicas.weights(r) = {3.0F * static_cast<float>(r)};
  replicas.call(0, {});
  replicas.call(1, {});
  replicas.pump();
  replicas.kill(2);
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(replicas.averager(r).call({}, nullptr).code(), Code::kPeerLost);
    EXPECT_EQ(replicas.averager(r).lost_rank(), 2U);
  }
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(replicas.call(r, {}).applied, 1U);
    EXPECT_EQ(replicas.weights(r)[0], 1.5F);
  }
}

// Only the lanes from it died so far; those to it are open, and nobody reads them.
TEST(Membership, TheLanesToALostMemberHoldNobodyUp) {
  Replicas replicas(3, opportunistic(0.5, 2), {200}, {.payload_bytes = 32});
  randomise(replicas, 3);
  const std::vector<uint32_t> survivors{0, 1};
  for (const uint32_t r : survivors) {
    for (Mailbox* box : {&replicas.rounds(r), &replicas.means(r)})
      box->port().reader_st(1).fail_st();
    EXPECT_EQ(replicas.averager(r).call({}, nullptr).code(), Code::kPeerLost);
  }
  uint64_t applied = 0;
  for (int call = 0; call < 100; ++call) {
    for (const uint32_t r : survivors) applied += replicas.call(r, {}).applied;
    replicas.pump();
  }
  EXPECT_GE(applied, 180U);
  const std::vector<Status> statuses =
      replicas.run_all(survivors, [&](uint32_t r) { return replicas.averager(r).finish({}); });
  for (const uint32_t r : survivors) EXPECT_EQ(statuses[r].code(), Code::kOk) << r;
  EXPECT_EQ(replicas.weights(0), replicas.weights(1));
}

TEST(Membership, TheLastSurvivorGoesOnAlone) {
  Replicas replicas(2, opportunistic(0.5, 2), {4});
  replicas.call(0, {});
  replicas.call(0, {});
  replicas.kill(1);
  EXPECT_EQ(replicas.averager(0).call({}, nullptr).code(), Code::kPeerLost);
  const CallResult result = replicas.call(0, {});
  EXPECT_EQ(result.applied, 0U);
  EXPECT_EQ(result.open, 0U);
  EXPECT_EQ(result.started, 1U);
  EXPECT_EQ(replicas.averager(0).stats().too_few, 3U);
  EXPECT_TRUE(replicas.averager(0).finish({}).ok());
}

TEST(Membership, FinishLeavesOneModelBitwiseEqualEverywhere) {
  Replicas replicas(3, opportunistic(0.25, 4), {50, 7}, {.payload_bytes = 32});
  CounterRandom random(7);
  for (int call = 0; call < 30; ++call) {
    const auto r = static_cast<uint32_t>(random.below(3));
    replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform()); });
    replicas.call(r, {});
    if (call % 2 == 0) replicas.pump();
  }
  std::vector<double> mean(57, 0.0);
  for (uint32_t r = 0; r < 3; ++r) {
    for (size_t i = 0; i < 57; ++i) mean[i] += replicas.weights(r)[i] / 3.0;
  }
  expect_all(replicas.run_all([&](uint32_t r) { return replicas.averager(r).finish({}); }),
             Code::kOk);
  EXPECT_EQ(replicas.weights(0), replicas.weights(1));
  EXPECT_EQ(replicas.weights(0), replicas.weights(2));
  for (size_t i = 0; i < 57; ++i) EXPECT_NEAR(replicas.weights(0)[i], mean[i], 1e-5);
  EXPECT_EQ(replicas.averager(0).call({}, nullptr).code(), Code::kInvalidState);
  EXPECT_TRUE(replicas.averager(0).finish({}).ok());
  EXPECT_TRUE(replicas.averager(0).finished());
}

TEST(Membership, OthersGoOnWhileOneWaitsInFinish) {
  Replicas replicas(3, opportunistic(0.5, 2), {8});
  randomise(replicas, 8);
  const Nanoseconds soon = replicas.clock().now() + 10;
  EXPECT_EQ(replicas.averager(2).finish({.deadline = soon}).code(), Code::kTimeout);
  for (int call = 0; call < 60; ++call) {
    for (uint32_t r = 0; r < 2; ++r) {
      replicas.call(r, {});
      replicas.pump();
    }
    // Member 2 discards what still reaches it and lets nobody's lane fill.
    EXPECT_EQ(replicas.averager(2).finish({.deadline = soon}).code(), Code::kTimeout);
  }
  EXPECT_GT(replicas.averager(0).stats().rounds_applied, 50U);
  EXPECT_EQ(replicas.weights(0), replicas.weights(1));
  expect_all(replicas.run_all([&](uint32_t r) { return replicas.averager(r).finish({}); }),
             Code::kOk);
  EXPECT_EQ(replicas.weights(0), replicas.weights(2));
}

TEST(Membership, RoundsThatAFinishedMemberStartedStillCountItIn) {
  Replicas replicas(2, opportunistic(1.0, 1), {1});
  replicas.weights(0) = {2.0F};
  replicas.weights(1) = {4.0F};
  replicas.call(1, {});
  EXPECT_EQ(replicas.averager(1).finish({.deadline = 5}).code(), Code::kTimeout);
  replicas.call(0, {});
  replicas.pump();
  EXPECT_EQ(replicas.call(0, {}).applied, 1U);
  EXPECT_EQ(replicas.weights(0)[0], 3.0F);
  EXPECT_EQ(replicas.call(0, {}).open, 0U);  // alone from here on
}

TEST(Membership, AMemberThatFinishedAndLeftIsNotLost) {
  Replicas replicas(2, opportunistic(1.0, 1), {1});
  replicas.weights(0) = {2.0F};
  replicas.weights(1) = {4.0F};
  replicas.call(1, {});
  EXPECT_EQ(replicas.averager(1).finish({.deadline = 5}).code(), Code::kTimeout);
  replicas.pump();
  replicas.kill(1);
  replicas.call(0, {});
  EXPECT_EQ(replicas.call(0, {}).applied, 1U);
  EXPECT_EQ(replicas.weights(0)[0], 3.0F);
}

TEST(Membership, AloneFinishIsImmediate) {
  Replicas replicas(1, opportunistic(0.5, 1), {4});
  randomise(replicas, 1);
  const std::vector<float> before = replicas.weights(0);
  EXPECT_TRUE(replicas.averager(0).finish({}).ok());
  EXPECT_EQ(replicas.weights(0), before);
}

// A member that resumes from a later round never sends the earlier ones.
TEST(Membership, TheGroupResumesAtItsHighestRound) {
  Replicas ahead(1, opportunistic(0.25, 2), {8});
  std::vector<std::byte> state(ahead.averager(0).state_bytes());
  for (int call = 0; call < 7; ++call) ahead.call(0, {});
  ASSERT_TRUE(ahead.averager(0).save(state).ok());

  Replicas replicas(3, opportunistic(0.25, 2), {8});
  randomise(replicas, 3);
  ASSERT_TRUE(replicas.averager(1).load(state).ok());
  EXPECT_EQ(replicas.averager(1).next_round(), 7U);
  for (int call = 0; call < 60; ++call) {
    for (uint32_t r = 0; r < 3; ++r) {
      replicas.call(r, {});
      replicas.pump();
    }
  }
  for (uint32_t r = 0; r < 3; ++r) {
    EXPECT_GT(replicas.averager(r).next_round(), 50U);
    EXPECT_GT(replicas.averager(r).stats().rounds_applied, 40U);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(replicas.weights(r)[i], replicas.weights(0)[i], 1e-5);
    }
  }
  EXPECT_EQ(replicas.averager(1).stats().rounds_discarded, 0U);
  EXPECT_GT(replicas.averager(0).stats().rounds_discarded, 0U);
}

void post(Mailbox& mailbox, const DeltaMeta& meta, const std::vector<float>& values) {
  Mailbox::Post claimed;
  ASSERT_EQ(mailbox.claim(&claimed), Code::kOk);
  std::memcpy(claimed.values, values.data(), values.size() * sizeof(float));
  mailbox.commit(claimed, meta, static_cast<uint32_t>(values.size() * sizeof(float)));
}

TEST(ForeignFrames, AMalformedContributionCountsForNothing) {
  Replicas replicas(3, opportunistic(1.0, 1), {4});
  for (uint32_t r = 0; r < 3; ++r) replicas.weights(r).assign(4, 2.0F * static_cast<float>(r));
  post(replicas.rounds(2), {.kind = DeltaKind::kRound, .round = 0, .count = 3}, {9, 9, 9});
  replicas.call(0, {});
  replicas.call(1, {});
  replicas.pump();
  EXPECT_EQ(replicas.call(0, {}).applied, 1U);
  EXPECT_EQ(replicas.weights(0)[0], 1.0F);
  replicas.call(0, {});
  EXPECT_EQ(replicas.averager(0).stats().frames_discarded, 1U);
}

TEST(ForeignFrames, OtherKindsAndResolvedRoundsAreDiscardedAndCounted) {
  Replicas replicas(2, opportunistic(1.0, 1), {2});
  post(replicas.rounds(1), {.kind = DeltaKind::kUser, .count = 1}, {1});
  replicas.pump();
  replicas.call(0, {});
  EXPECT_EQ(replicas.averager(0).stats().frames_discarded, 1U);
  replicas.call(1, {});
  replicas.pump();
  EXPECT_EQ(replicas.call(0, {}).applied, 1U);
  // Round 0 once more: late, and everything after it in order.
  post(replicas.rounds(1), {.kind = DeltaKind::kRound, .round = 0, .count = 2}, {5, 5});
  replicas.call(1, {});
  replicas.pump();
  EXPECT_EQ(replicas.call(0, {}).applied, 1U);
  EXPECT_EQ(replicas.averager(0).stats().frames_discarded, 2U);
}

}  // namespace
}  // namespace asyncmesh::test
