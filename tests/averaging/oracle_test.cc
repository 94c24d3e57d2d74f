// Oracles O-3 to O-10 and O-12 of the method, through averagers over mailboxes, deterministic mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "averaging/replicas.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;

constexpr Rule kRules[] = {Rule::kAverage, Rule::kDelta, Rule::kEma};

// Multiples of 2^-10 in [-1, 1): sums and halves are exact.
float dyadic(CounterRandom& random) {
  return static_cast<float>(static_cast<double>(random.below(2048)) / 1024.0 - 1.0);
}

void randomise_dyadic(Replicas& replicas, uint64_t seed) {
  CounterRandom random(seed);
  for (uint32_t r = 0; r < replicas.size(); ++r) {
    for (float& w : replicas.weights(r)) w = dyadic(random);
  }
}

double mean_of(Replicas& replicas, uint64_t element) {
  double sum = 0;
  for (uint32_t r = 0; r < replicas.size(); ++r) sum += replicas.weights(r)[element];
  return sum / replicas.size();
}

double consensus_error(Replicas& replicas) {
  double error = 0;
  for (uint64_t i = 0; i < replicas.elements(); ++i) {
    const double mean = mean_of(replicas, i);
    for (uint32_t r = 0; r < replicas.size(); ++r) {
      error += std::pow(replicas.weights(r)[i] - mean, 2);
    }
  }
  return error;
}

// O-3: with everything averaged in every call, plain SGD on each replica is SGD on averaged
// gradients.
TEST(Oracle3, FullAveragingEqualsGradientAveraging) {
  for (const Rule rule : kRules) {
    Replicas replicas(4, oracle_config(rule, 1.0, 0), {16});
    std::vector<float> serial(16, 0.0F);
    CounterRandom random(1);
    for (int call = 0; call < 20; ++call) {
      std::vector<float> mean(16, 0.0F);
      for (uint32_t r = 0; r < 4; ++r) {
        std::vector<float> gradient(16);
        for (float& g : gradient) g = dyadic(random);
        for (size_t i = 0; i < 16; ++i) mean[i] += gradient[i] / 4;
        replicas.add(r, [&](uint64_t i) { return -0.125F * gradient[i]; });
      }
      replicas.call_all({});
      for (size_t i = 0; i < 16; ++i) serial[i] -= 0.125F * mean[i];
      for (uint32_t r = 0; r < 4; ++r) ASSERT_EQ(replicas.weights(r), serial);
    }
  }
}

// O-4.
TEST(Oracle4, WithoutDelayAllRulesAreOne) {
  std::vector<std::vector<float>> results;
  for (const Rule rule : kRules) {
    AveragerConfig config = oracle_config(rule, 0.3, 0);
    config.scale = 0.7;
    config.momentum_first = 0.2;
    Replicas replicas(3, config, {11, 6});
    CounterRandom random(2);
    for (int call = 0; call < 30; ++call) {
      for (uint32_t r = 0; r < 3; ++r) {
        replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform() - 0.5); });
      }
      replicas.call_all({.progress = call / 30.0});
    }
    results.push_back(replicas.weights(1));
    if (rule != Rule::kEma) continue;
    std::vector<std::byte> state(replicas.averager(1).state_bytes());
    ASSERT_TRUE(replicas.averager(1).save(state).ok());
    // Behind a header of 32 bytes: the EMA, all zero.
    EXPECT_TRUE(std::all_of(state.begin() + 32, state.begin() + 32 + 17 * 4,
                            [](std::byte b) { return (b & std::byte{0x7F}) == std::byte{0}; }));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// O-5.
TEST(Oracle5, KeepsTheMeanAndEverythingOutsideTheSubset) {
  Replicas replicas(4, oracle_config(Rule::kAverage, 0.25, 0), {40});
  randomise_dyadic(replicas, 3);
  const std::vector<uint32_t> parts = parts_of_elements(replicas.averager(0), 0);
  std::vector<double> means(40);
  for (uint64_t i = 0; i < 40; ++i) means[i] = mean_of(replicas, i);
  for (uint32_t call = 0; call < 4; ++call) {
    const std::vector<float> before = replicas.weights(2);
    replicas.call_all({});
    for (uint64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(mean_of(replicas, i), means[i]);
      if (parts[i] == call) continue;
      EXPECT_EQ(replicas.weights(2)[i], before[i]);
    }
  }
}

// O-6; for random subsets see selection_test.cc, as for O-7.
TEST(Oracle6, RotationReachesConsensusInExactlyNCalls) {
  AveragerConfig config = oracle_config(Rule::kEma, 0.05, 0);
  config.redraw = Redraw::kEveryCycle;
  Replicas replicas(2, config, {1000});
  randomise_dyadic(replicas, 4);
  for (uint32_t call = 0; call < 20; ++call) {
    EXPECT_GT(consensus_error(replicas), 0.0) << call;
    replicas.call_all({});
  }
  EXPECT_EQ(consensus_error(replicas), 0.0);
  EXPECT_EQ(replicas.weights(0), replicas.weights(1));
}

// O-8.
TEST(Oracle8, NothingIsWrittenBeforeTheDelayAndThenTheSubsetOfThatCall) {
  constexpr uint32_t kTau = 3;
  Replicas replicas(2, oracle_config(Rule::kAverage, 0.2, kTau), {9, 11});
  randomise_dyadic(replicas, 6);
  const std::vector<uint32_t> parts = parts_of_elements(replicas.averager(0), 0);
  for (uint32_t call = 0; call < 8; ++call) {
    const std::vector<float> before = replicas.weights(0);
    replicas.call_all({});
    for (uint64_t i = 0; i < 20; ++i) {
      const bool written = call >= kTau && parts[i] == (call - kTau) % 5;
      EXPECT_EQ(replicas.weights(0)[i] != before[i], written) << call << " " << i;
    }
  }
}

// O-9. Drifts are multiples of 2^-10, so the mean before and after is exact.
TEST(Oracle9, DeltaKeepsTheMeanForAnyDelay) {
  for (const uint32_t tau : {0U, 1U, 2U, 3U}) {
    Replicas replicas(2, oracle_config(Rule::kDelta, 0.25, tau), {16});
    CounterRandom random(7 + tau);
    for (int call = 0; call < 20; ++call) {
      for (uint32_t r = 0; r < 2; ++r) replicas.add(r, [&](uint64_t) { return dyadic(random); });
      std::vector<double> before(16);
      for (uint64_t i = 0; i < 16; ++i) before[i] = mean_of(replicas, i);
      replicas.call_all({});
      for (uint64_t i = 0; i < 16; ++i) ASSERT_NEAR(mean_of(replicas, i), before[i], 2e-6);
    }
  }
}

TEST(Oracle9, EmaWithoutMomentumIsDelta) {
  AveragerConfig ema = oracle_config(Rule::kEma, 0.25, 2);
  ema.momentum_first = ema.momentum_last = 0.0;
  Replicas one(2, ema, {16});
  Replicas two(2, oracle_config(Rule::kDelta, 0.25, 2), {16});
  CounterRandom random(11);
  for (int call = 0; call < 20; ++call) {
    for (uint32_t r = 0; r < 2; ++r) {
      std::vector<float> step(16);
      for (float& s : step) s = dyadic(random);
      one.add(r, [&](uint64_t i) { return step[i]; });
      two.add(r, [&](uint64_t i) { return step[i]; });
    }
    one.call_all({});
    two.call_all({});
    ASSERT_EQ(one.weights(0), two.weights(0));
  }
}

TEST(Oracle9, AverageRollsTheMeanBackByTheMeanDrift) {
  Replicas replicas(2, oracle_config(Rule::kAverage, 1.0, 1), {1});
  replicas.add(0, [](uint64_t) { return 1.0F; });
  replicas.add(1, [](uint64_t) { return 3.0F; });
  replicas.call_all({});
  replicas.add(0, [](uint64_t) { return 0.5F; });
  replicas.add(1, [](uint64_t) { return 2.5F; });
  replicas.call_all({});
  EXPECT_EQ(mean_of(replicas, 0), 3.5 - 1.5);
}

// O-10: long-run progress of the mean per call under a drift of 1 per call.
double progress_rate(Rule rule, double fraction, uint32_t tau) {
  Replicas replicas(2, oracle_config(rule, fraction, tau), {40});
  constexpr int kWarm = 400;
  constexpr int kCalls = 1200;  // a multiple of every N here
  double start = 0;
  for (int call = 0; call < kWarm + kCalls; ++call) {
    if (call == kWarm) start = mean_of(replicas, 5);
    for (uint32_t r = 0; r < 2; ++r) replicas.add(r, [](uint64_t) { return 1.0F; });
    replicas.call_all({});
  }
  return (mean_of(replicas, 5) - start) / kCalls;
}

TEST(Oracle10, AverageLosesWhatTheFormulaSays) {
  EXPECT_NEAR(progress_rate(Rule::kAverage, 0.05, 10), 0.5, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kAverage, 0.05, 19), 0.05, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kAverage, 0.05, 50), 1.0 / 6, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kAverage, 1.0, 1), 0.5, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kAverage, 1.0, 3), 0.25, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kAverage, 0.25, 10), 1.0 / 6, 1e-3);
}

TEST(Oracle10, DeltaAndEmaLoseNothing) {
  EXPECT_NEAR(progress_rate(Rule::kDelta, 0.05, 10), 1.0, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kDelta, 0.05, 19), 1.0, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kDelta, 1.0, 1), 1.0, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kEma, 0.05, 10), 1.0, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kEma, 0.05, 19), 1.0, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kEma, 0.05, 50), 1.0, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kEma, 1.0, 1), 1.0, 1e-3);
  EXPECT_NEAR(progress_rate(Rule::kEma, 0.25, 10), 1.0, 1e-3);
}

// Section 8.2 (d): the EMA ends at tau g, so that a + e is the present mean.
TEST(Oracle10, TheEmaSettlesAtDelayTimesDrift) {
  AveragerConfig config = oracle_config(Rule::kEma, 0.05, 10);
  config.init = EmaInit::kZero;
  Replicas replicas(2, config, {40});
  std::vector<std::byte> state(replicas.averager(0).state_bytes());
  for (int call = 0; call < 600; ++call) {
    for (uint32_t r = 0; r < 2; ++r) replicas.add(r, [](uint64_t) { return 1.0F; });
    replicas.call_all({});
  }
  ASSERT_TRUE(replicas.averager(0).save(state).ok());
  float e = 0;
  std::memcpy(&e, state.data() + 32, sizeof e);
  EXPECT_NEAR(e, 10.0, 1e-3);
}

// O-11, the side of the map that is accepted: deviations die out without steps.
TEST(Oracle11, AcceptedSettingsContract) {
  struct Setting {
    double fraction;
    uint32_t tau;
    double momentum;
  };
  for (const Setting& setting : {Setting{0.05, 10, 0.5}, Setting{0.05, 50, 0.5},
                                 Setting{0.3, 10, 0.5}, Setting{0.4, 10, 0.9}}) {
    AveragerConfig config = oracle_config(Rule::kEma, setting.fraction, setting.tau);
    config.redraw = Redraw::kEveryCycle;
    config.momentum_first = config.momentum_last = setting.momentum;
    Replicas replicas(4, config, {40});
    CounterRandom random(21);
    // Steps first, so that rounds in flight carry drift that the loop has to digest.
    for (int call = 0; call < 100; ++call) {
      for (uint32_t r = 0; r < 4; ++r) {
        replicas.add(r, [&](uint64_t) { return 0.1F * dyadic(random); });
      }
      replicas.call_all({});
    }
    const double before = consensus_error(replicas);
    for (int call = 0; call < 2000; ++call) replicas.call_all({});
    EXPECT_LT(consensus_error(replicas), 1e-4 * before) << setting.fraction << " " << setting.tau;
  }
}

// O-12: right after a write the deviation of a replica is that of its EMA.
TEST(Oracle12, DeviationAfterAWriteIsThatOfTheEma) {
  Replicas replicas(3, oracle_config(Rule::kEma, 1.0, 1), {8});
  CounterRandom random(13);
  for (int call = 0; call < 50; ++call) {
    for (uint32_t r = 0; r < 3; ++r) replicas.add(r, [&](uint64_t) { return dyadic(random); });
    replicas.call_all({});
    if (call == 0) continue;
    std::vector<float> e(3);
    for (uint32_t r = 0; r < 3; ++r) {
      std::vector<std::byte> state(replicas.averager(r).state_bytes());
      ASSERT_TRUE(replicas.averager(r).save(state).ok());
      std::memcpy(&e[r], state.data() + 32, sizeof(float));
    }
    const double mean = (e[0] + e[1] + e[2]) / 3.0;
    for (uint32_t r = 0; r < 3; ++r) {
      ASSERT_NEAR(replicas.weights(r)[0] - mean_of(replicas, 0), e[r] - mean, 1e-5);
    }
  }
}

}  // namespace
}  // namespace asyncmesh::test
