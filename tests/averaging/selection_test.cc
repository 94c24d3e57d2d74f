// Oracles O-2, O-6 (random) and O-7: which coordinates a round takes, and what that does to
// consensus.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "averaging/replicas.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;
using kernels::TensorView;

AveragerConfig random_config(double fraction) {
  AveragerConfig config = oracle_config(Rule::kEma, fraction, 0);
  config.selection = Selection::kRandom;
  config.seed = 1337;
  return config;
}

// A partition of `elements` single elements (no averager behind it).
struct RandomRounds {
  RandomRounds(uint64_t elements, double fraction)
      : data(elements),
        partition(Partition::create(random_config(fraction), Tensors{{{data.data(), elements, 0}}})
                      .value()) {}
  std::vector<uint32_t> parts(uint64_t round) const {
    std::vector<uint32_t> parts(data.size());
    partition.part_of_elements(round, parts.data());
    return parts;
  }
  std::vector<float> data;
  Partition partition;
};

TEST(Oracle2, SizesHaveTheMeanAndVarianceOfACoinPerBlock) {
  const RandomRounds rounds(1000, 0.05);
  constexpr int kRounds = 20'000;
  double sum = 0;
  double squares = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const double off =
        static_cast<double>(rounds.partition.elements_of(rounds.partition.subset(round))) - 50.0;
    sum += off;
    squares += off * off;
  }
  EXPECT_NEAR(sum / kRounds, 0.0, 0.2);       // 4 standard errors
  EXPECT_NEAR(squares / kRounds, 47.5, 2.0);  // likewise
}

TEST(Oracle2, CoverageIsThatOfIndependentRounds) {
  const RandomRounds rounds(5000, 0.05);
  std::vector<uint8_t> covered(5000, 0);
  for (uint64_t round = 0; round < 100; ++round) {
    const std::vector<uint32_t> parts = rounds.parts(round);
    for (size_t i = 0; i < covered.size(); ++i) {
      if (parts[i] == 0) covered[i] = 1;
    }
    const double share = std::accumulate(covered.begin(), covered.end(), 0.0) / 5000.0;
    ASSERT_NEAR(share, 1.0 - std::pow(0.95, static_cast<double>(round + 1)), 0.03) << round;
  }
}

TEST(Oracle2, BlocksAreChosenIndependentlyOfEachOther) {
  constexpr uint64_t kElements = 1024;
  constexpr uint64_t kRounds = 4000;
  const RandomRounds rounds(kElements, 0.25);
  const std::vector<uint64_t> distances{1, 2, 31, 32, 64, 500};
  std::vector<double> both(distances.size(), 0);
  std::vector<double> single(distances.size() + 1, 0);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const std::vector<uint32_t> parts = rounds.parts(round);
    for (size_t i = 0; i < distances.size(); ++i) {
      both[i] += parts[7] == 0 && parts[7 + distances[i]] == 0 ? 1 : 0;
      single[i] += parts[7 + distances[i]] == 0 ? 1 : 0;
    }
  }
  for (size_t i = 0; i < distances.size(); ++i) {
    EXPECT_NEAR(single[i], kRounds * 0.25, 4.5 * std::sqrt(kRounds * 0.25 * 0.75)) << distances[i];
    EXPECT_NEAR(both[i], kRounds / 16.0, 4.5 * std::sqrt(kRounds / 16.0 * 15 / 16)) << distances[i];
  }
}

double consensus_error(Replicas& replicas) {
  double error = 0;
  for (uint64_t i = 0; i < replicas.elements(); ++i) {
    double mean = 0;
    for (uint32_t r = 0; r < replicas.size(); ++r) mean += replicas.weights(r)[i];
    mean /= replicas.size();
    for (uint32_t r = 0; r < replicas.size(); ++r) {
      error += std::pow(replicas.weights(r)[i] - mean, 2);
    }
  }
  return error;
}

TEST(Oracle6, RandomSubsetsShrinkTheErrorByOneMinusPPerCallForAnyNumberOfReplicas) {
  for (const uint32_t count : {2U, 5U}) {
    Replicas replicas(count, random_config(0.1), {12'000});
    CounterRandom random(count);
    for (uint32_t r = 0; r < count; ++r) {
      replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform() - 0.5); });
    }
    const double start = consensus_error(replicas);
    for (int call = 1; call <= 12; ++call) {
      replicas.call_all({});
      const double expected = std::pow(0.9, call);
      ASSERT_NEAR(consensus_error(replicas) / start / expected, 1.0, 0.06) << call;
    }
  }
}

// O-7, the trap: a subset chosen by magnitude never visits what stays small. Two replicas take the
// same steps under top-k by the first one's weights, and under the rotation.
class MagnitudeTopK {
 public:
  MagnitudeTopK() : replicas_(2, rotation(), {kElements}) {
    CounterRandom random(5);
    // A tenth of the weights is large, as in trained models, and stays so.
    for (uint32_t r = 0; r < 2; ++r) {
      replicas_.add(r, [&](uint64_t i) {
        return static_cast<float>(random.uniform() - 0.5) + (i % 10 == 0 ? 5.0F : 0.0F);
      });
      topk_[r] = replicas_.weights(r);
    }
  }

  void step(float size, CounterRandom& random) {
    for (uint32_t r = 0; r < 2; ++r) {
      replicas_.add(r, [&](uint64_t i) {
        const float change = size * static_cast<float>(random.uniform() - 0.5);
        topk_[r][i] += change;
        return change;
      });
    }
  }

  void call() {
    replicas_.call_all({});
    std::vector<size_t> order(kElements);
    std::iota(order.begin(), order.end(), size_t{0});
    std::nth_element(
        order.begin(), order.begin() + kElements / 10, order.end(),
        [&](size_t a, size_t b) { return std::abs(topk_[0][a]) > std::abs(topk_[0][b]); });
    for (size_t j = 0; j < kElements / 10; ++j) {
      topk_[0][order[j]] = topk_[1][order[j]] = (topk_[0][order[j]] + topk_[1][order[j]]) / 2;
    }
  }

  double error() const {
    double sum = 0;
    for (size_t i = 0; i < kElements; ++i) sum += std::pow(topk_[0][i] - topk_[1][i], 2) / 2;
    return sum;
  }
  double rotation_error() { return consensus_error(replicas_); }

 private:
  static constexpr size_t kElements = 2000;
  static AveragerConfig rotation() { return oracle_config(Rule::kAverage, 0.1, 0); }
  Replicas replicas_;
  std::vector<float> topk_[2];
};

TEST(Oracle7, WithoutStepsTopKStopsShortOfConsensusAndRotationDoesNot) {
  MagnitudeTopK trap;
  const double start = trap.error();
  trap.call();
  const double after_one = trap.error();
  EXPECT_NEAR(after_one / start, 0.9, 0.02);  // the large tenth is synchronised, at once
  for (int call = 1; call < 10; ++call) trap.call();
  EXPECT_EQ(trap.error(), after_one);  // and nothing else ever is
  EXPECT_EQ(trap.rotation_error(), 0.0);
}

TEST(Oracle7, WithStepsTheErrorOfTopKGrowsLinearlyAndThatOfRotationLevelsOff) {
  MagnitudeTopK trap;
  CounterRandom random(6);
  double error[3];
  double rotation_error[3];
  for (int i = 0; i < 3; ++i) {
    for (int call = 0; call < 100; ++call) {
      trap.step(0.2F, random);
      trap.call();
    }
    error[i] = trap.error();
    rotation_error[i] = trap.rotation_error();
  }
  EXPECT_NEAR((error[2] - error[1]) / (error[1] - error[0]), 1.0, 0.2);
  EXPECT_NEAR(rotation_error[2] / rotation_error[1], 1.0, 0.2);
  EXPECT_GT(error[2], 20 * rotation_error[2]);
}

}  // namespace
}  // namespace asyncmesh::test
