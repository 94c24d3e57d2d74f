// The blocking mean.
#include <gtest/gtest.h>

#include <limits>

#include "averaging/replicas.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;

TEST(Mean, IsBitwiseEqualEverywhereAndInPlaceIfAsked) {
  Replicas replicas(3, opportunistic(0.5, 1), {100, 0, 9}, {.payload_bytes = 64});
  randomise(replicas, 9);
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<float>> outputs(3, std::vector<float>(109));
  for (uint32_t r = 0; r < 3; ++r) inputs.push_back(replicas.weights(r));
  expect_all(replicas.run_all([&](uint32_t r) {
    return replicas.averager(r).mean(replicas.table(replicas.weights(r)),
                                     replicas.table(outputs[r]), {});
  }),
             Code::kOk);
  for (uint32_t r = 0; r < 3; ++r) {
    EXPECT_EQ(replicas.weights(r), inputs[r]);
    EXPECT_EQ(outputs[r], outputs[0]);
  }
  for (size_t i = 0; i < 109; ++i) {
    EXPECT_NEAR(outputs[0][i], (inputs[0][i] + inputs[1][i] + inputs[2][i]) / 3, 1e-6);
  }
  expect_all(replicas.run_all([&](uint32_t r) {
    const auto table = replicas.table(replicas.weights(r));
    return replicas.averager(r).mean(table, table, {});
  }),
             Code::kOk);
  for (uint32_t r = 0; r < 3; ++r) EXPECT_EQ(replicas.weights(r), outputs[0]);
}

TEST(Mean, BroadcastsExactlyWithOneWeight) {
  Replicas replicas(3, opportunistic(0.5, 1), {100}, {.payload_bytes = 64});
  randomise(replicas, 10);
  const std::vector<float> master = replicas.weights(1);
  expect_all(replicas.run_all([&](uint32_t r) {
    const auto table = replicas.table(replicas.weights(r));
    return replicas.averager(r).mean(table, table, {.weight = r == 1 ? 1.0F : 0.0F});
  }),
             Code::kOk);
  for (uint32_t r = 0; r < 3; ++r) EXPECT_EQ(replicas.weights(r), master);
}

TEST(Mean, AllWeightsZeroIsRefusedOnAllMembersAndTheNextOneWorks) {
  Replicas replicas(2, opportunistic(0.5, 1), {40}, {.payload_bytes = 16});
  randomise(replicas, 11);
  const auto run = [&](float weight) {
    return replicas.run_all([&, weight](uint32_t r) {
      const auto table = replicas.table(replicas.weights(r));
      return replicas.averager(r).mean(table, table, {.weight = weight});
    });
  };
  const std::vector<float> before = replicas.weights(0);
  expect_all(run(0.0F), Code::kInvalidArgument);
  EXPECT_EQ(replicas.weights(0), before);
  expect_all(run(1.0F), Code::kOk);
  EXPECT_EQ(replicas.weights(0), replicas.weights(1));
}

TEST(Mean, AnInputThatIsNotFiniteHasNoWeight) {
  Replicas replicas(3, opportunistic(0.5, 1), {8});
  for (uint32_t r = 0; r < 3; ++r) replicas.weights(r).assign(8, 2.0F * static_cast<float>(r));
  replicas.weights(2)[3] = std::numeric_limits<float>::infinity();
  expect_all(replicas.run_all([&](uint32_t r) {
    const auto table = replicas.table(replicas.weights(r));
    return replicas.averager(r).mean(table, table, {});
  }),
             Code::kOk);
  EXPECT_EQ(replicas.weights(2), std::vector<float>(8, 1.0F));
  EXPECT_EQ(replicas.averager(2).stats().not_finite, 1U);
}

TEST(Mean, TakesAnyTableThatAllMembersShare) {
  Replicas replicas(2, opportunistic(0.5, 1), {8});
  std::vector<float> losses{1.0F, 2.0F};
  expect_all(replicas.run_all([&](uint32_t r) {
    const Tensors one{{{.data = &losses[r], .count = 1}}};
    return replicas.averager(r).mean(one, one, {});
  }),
             Code::kOk);
  EXPECT_EQ(losses, (std::vector<float>{1.5F, 1.5F}));
}

TEST(Mean, MembersWithDifferentTablesRefuseEachOther) {
  Replicas replicas(2, opportunistic(0.5, 1), {8});
  std::vector<float> values(8);
  expect_all(replicas.run_all([&](uint32_t r) {
    const Tensors table{{{.data = values.data() + 4 * r, .count = 3 + r}}};
    return replicas.averager(r).mean(table, table, {});
  }),
             Code::kMismatch);
}

TEST(Mean, TimesOutAndResumes) {
  Replicas replicas(2, opportunistic(0.5, 1), {100}, {.payload_bytes = 16});
  randomise(replicas, 12);
  const auto table = replicas.table(replicas.weights(0));
  const Nanoseconds deadline = replicas.clock().now() + 100;
  EXPECT_EQ(replicas.averager(0).mean(table, table, {.deadline = deadline}).code(), Code::kTimeout);
  std::vector<float> other(100);
  const auto foreign = replicas.table(other);
  EXPECT_EQ(replicas.averager(0).mean(foreign, foreign, {}).code(), Code::kInvalidState);
  EXPECT_EQ(replicas.averager(0).finish({}).code(), Code::kInvalidState);
  expect_all(replicas.run_all([&](uint32_t r) {
    const auto mine = replicas.table(replicas.weights(r));
    return replicas.averager(r).mean(mine, mine, {});
  }),
             Code::kOk);
  EXPECT_EQ(replicas.weights(0), replicas.weights(1));
}

TEST(Mean, ALostMemberEndsItAndTheNextGoesOnWithoutIt) {
  Replicas replicas(3, opportunistic(0.5, 1), {100}, {.payload_bytes = 16});
  randomise(replicas, 13);
  const auto mean = [&](uint32_t r) {
    const auto table = replicas.table(replicas.weights(r));
    return replicas.averager(r).mean(table, table, {.deadline = replicas.clock().now()});
  };
  EXPECT_EQ(mean(0).code(), Code::kTimeout);
  EXPECT_EQ(mean(1).code(), Code::kTimeout);
  replicas.kill(2);
  const std::vector<uint32_t> survivors{0, 1};
  for (const uint32_t r : survivors) EXPECT_EQ(mean(r).code(), Code::kPeerLost);
  EXPECT_EQ(replicas.averager(0).lost_rank(), 2U);
  const std::vector<Status> statuses = replicas.run_all(survivors, mean);
  for (const uint32_t r : survivors) EXPECT_TRUE(statuses[r].ok()) << statuses[r].text();
  EXPECT_EQ(replicas.weights(0), replicas.weights(1));
}

TEST(Mean, DoesNotDisturbOpenRounds) {
  Replicas replicas(2, opportunistic(0.5, 2), {4});
  replicas.weights(0).assign(4, 2.0F);
  replicas.weights(1).assign(4, 4.0F);
  replicas.call(0, {});
  replicas.call(1, {});
  std::vector<std::vector<float>> out(2, std::vector<float>(4));
  expect_all(replicas.run_all([&](uint32_t r) {
    return replicas.averager(r).mean(replicas.table(replicas.weights(r)), replicas.table(out[r]),
                                     {});
  }),
             Code::kOk);
  EXPECT_EQ(out[0], std::vector<float>(4, 3.0F));
  EXPECT_EQ(replicas.call(0, {}).applied, 1U);
}

TEST(Mean, RefusesTablesThatDiffer) {
  Replicas replicas(2, opportunistic(0.5, 1), {4});
  std::vector<float> values(8);
  const Tensors three{{{.data = values.data(), .count = 3}}};
  const Tensors four{{{.data = values.data(), .count = 4}}};
  const Tensors null{{{.data = nullptr, .count = 4}}};
  const Tensors scaled{four.views, kernels::Encoding::kInt8};
  Averager& averager = replicas.averager(0);
  EXPECT_EQ(averager.mean(three, four, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(averager.mean(four, null, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(averager.mean(four, {}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(averager.mean(four, scaled, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(averager.mean(four, four, {.weight = -1.0F}).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace asyncmesh::test
