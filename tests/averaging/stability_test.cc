#include "averaging/stability.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "averaging/fingerprint.h"
#include "averaging/schedule.h"

namespace asyncmesh {
namespace {

using kernels::Rule;

// O-14: values of (3.4) with m_0 = 0.5, 1,000 calls of warm-up and 30,000 in all.
TEST(Schedule, HasTheReferenceValues) {
  const auto m = [](uint64_t k) { return momentum_of_call(0.5, 0.99, k, 1000, 30000); };
  EXPECT_EQ(m(0), 0.5);
  EXPECT_EQ(m(999), 0.5);
  EXPECT_NEAR(m(1000), 0.5, 1e-12);
  EXPECT_NEAR(m(1001), 0.500000001, 6e-10);
  EXPECT_NEAR(m(5000), 0.522645559, 1e-9);
  EXPECT_NEAR(m(8250), 0.571763531, 1e-9);
  EXPECT_NEAR(m(10000), 0.607515987, 1e-9);
  EXPECT_NEAR(m(15499), 0.744986729, 1e-9);
  EXPECT_NEAR(m(15500), 0.745013271, 1e-9);
  EXPECT_NEAR(m(20000), 0.859775432, 1e-9);
  EXPECT_NEAR(m(29999), 0.99, 1e-12);
}

TEST(Schedule, ClampsProgressAndSurvivesDegenerateSettings) {
  const MomentumSchedule schedule{};
  EXPECT_EQ(momentum_at(schedule, -1.0), 0.5);
  EXPECT_EQ(momentum_at(schedule, std::nan("")), 0.5);
  EXPECT_NEAR(momentum_at(schedule, 7.0), 0.99, 1e-12);
  EXPECT_NEAR(momentum_at({.first = 0.5, .last = 0.9, .warm_up = 1.0}, 1.0), 0.9, 1e-12);
  EXPECT_EQ(momentum_of_call(0.5, 0.99, 0, 1, 1), 0.5);
  EXPECT_EQ(momentum_of_call(0.5, 0.99, 5, 1, 2), 0.99);
}

TEST(Stability, LimitsAreThoseOfTheTable) {
  const std::vector<double> table{2, 1, 0.6180, 0.4450, 0.3473, 0.2846};
  for (size_t q = 0; q < table.size(); ++q) EXPECT_NEAR(rotation_limit(q), table[q], 5e-5);
  EXPECT_NEAR(rotation_limit(10), 0.1495, 5e-5);
}

// The limit against the loop that it is about: y_{k+1} = m y_k + (1 - m) (y_k - y_{k-q}).
TEST(Stability, LimitSeparatesDecayFromGrowth) {
  const auto grows = [](double gain, size_t q) {
    std::vector<double> y(q + 1, 1.0);
    for (int k = 0; k < 20000; ++k) {
      const double next = y.back() - gain * y[y.size() - 1 - q];
      y.erase(y.begin());
      y.push_back(next);
      if (std::abs(next) > 1e6) return true;
    }
    return std::abs(y.back()) > 1.0;
  };
  for (size_t q = 0; q <= 8; ++q) {
    EXPECT_FALSE(grows(rotation_limit(q) * 0.98, q)) << q;
    EXPECT_TRUE(grows(rotation_limit(q) * 1.02, q)) << q;
  }
}

// The mean square of a coordinate that is visited with probability p per round, exactly: second
// moments of the last `delay` + 1 values, moved on round by round.
bool random_loop_grows(double p, size_t delay, double gain) {
  const size_t last = delay;
  std::vector<std::vector<double>> moments(delay + 1, std::vector<double>(delay + 1, 1.0));
  for (int round = 0; round < 6000; ++round) {
    auto next = moments;
    next[0][0] =
        moments[0][0] - 2 * gain * p * moments[0][last] + gain * gain * p * moments[last][last];
    for (size_t i = 1; i <= delay; ++i) {
      next[0][i] = next[i][0] = moments[0][i - 1] - gain * p * moments[last][i - 1];
      for (size_t j = 1; j <= delay; ++j) next[i][j] = moments[i - 1][j - 1];
    }
    moments = next;
    if (moments[0][0] > 1e9) return true;
  }
  return moments[0][0] > 1.0;
}

TEST(Stability, RandomLimitSeparatesDecayFromGrowthOfTheMeanSquare) {
  for (const double p : {0.05, 0.3, 0.5, 0.9}) {
    for (const size_t delay : {0U, 1U, 2U, 5U, 9U}) {
      const double limit = random_limit(p, delay);
      EXPECT_FALSE(random_loop_grows(p, delay, limit * 0.97)) << p << " " << delay;
      EXPECT_TRUE(random_loop_grows(p, delay, limit * 1.03)) << p << " " << delay;
    }
  }
}

TEST(Stability, RandomLimitMeetsTheCasesThatAreKnown) {
  EXPECT_NEAR(random_limit(0.05, 9), 1.1701, 1e-4);
  for (const double p : {0.01, 0.5, 1.0}) EXPECT_NEAR(random_limit(p, 0), 2.0, 1e-12);
  for (const uint64_t delay : {1U, 2U, 10U, 1000U}) {
    EXPECT_NEAR(random_limit(1.0, delay), rotation_limit(delay), 1e-12);
    EXPECT_LT(random_limit(0.3, delay), random_limit(0.2, delay));
    EXPECT_LT(random_limit(0.3, delay + 1), random_limit(0.3, delay));
  }
}

AveragerConfig setting(Rule rule, AveragingMode mode, uint32_t window) {
  AveragerConfig config;
  config.rule = rule;
  config.mode = mode;
  config.window = window;
  return config;
}

TEST(Stability, CountsWritesBetweenSamplingAndApplying) {
  EXPECT_EQ(worst_q(setting(Rule::kEma, AveragingMode::kDeterministic, 10), 20), 0U);
  EXPECT_EQ(worst_q(setting(Rule::kEma, AveragingMode::kDeterministic, 20), 20), 1U);
  EXPECT_EQ(worst_q(setting(Rule::kEma, AveragingMode::kOpportunistic, 20), 20), 0U);
  EXPECT_EQ(worst_q(setting(Rule::kEma, AveragingMode::kOpportunistic, 21), 20), 1U);
  EXPECT_EQ(worst_q(setting(Rule::kEma, AveragingMode::kOpportunistic, 1), 1), 0U);
}

// The settings that were reported to work and to fail: a subset of 30 % and 40 % at a delay of 10,
// a delay of 50 and 60 at 5 %.
TEST(Stability, RefusesWhatWasSeenToDiverge) {
  const auto ema = [](uint32_t window, uint32_t parts) {
    return check_stability(setting(Rule::kEma, AveragingMode::kDeterministic, window), parts)
        .code();
  };
  EXPECT_EQ(ema(10, 4), Code::kOk);
  EXPECT_EQ(ema(10, 3), Code::kInvalidArgument);
  EXPECT_EQ(ema(50, 20), Code::kOk);
  EXPECT_EQ(ema(60, 20), Code::kInvalidArgument);
}

TEST(Stability, DeltaIsMarginalWithOneWriteBetween) {
  const auto delta = [](AveragingMode mode, uint32_t window, uint32_t parts) {
    return check_stability(setting(Rule::kDelta, mode, window), parts).code();
  };
  EXPECT_EQ(delta(AveragingMode::kDeterministic, 1, 2), Code::kOk);
  EXPECT_EQ(delta(AveragingMode::kDeterministic, 2, 2), Code::kOk);  // at the limit
  EXPECT_EQ(delta(AveragingMode::kDeterministic, 4, 2), Code::kInvalidArgument);
  EXPECT_EQ(delta(AveragingMode::kOpportunistic, 2, 2), Code::kOk);
  EXPECT_EQ(delta(AveragingMode::kOpportunistic, 3, 2), Code::kInvalidArgument);
}

TEST(Stability, AverageIsAlwaysStable) {
  EXPECT_TRUE(
      check_stability(setting(Rule::kAverage, AveragingMode::kOpportunistic, 1000), 1).ok());
  EXPECT_EQ(stability_margin(loop_gain(Rule::kAverage, 0.0, 1.0), rotation_limit(50)), 1.0);
}

TEST(Stability, RandomSubsetsAreJudgedByTheirMeanSquare) {
  const auto code = [](Rule rule, double fraction, uint32_t window) {
    AveragerConfig config = setting(rule, AveragingMode::kOpportunistic, window);
    config.selection = Selection::kRandom;
    config.fraction = fraction;
    return check_stability(config, 1).code();
  };
  EXPECT_EQ(code(Rule::kEma, 0.05, 10), Code::kOk);
  EXPECT_EQ(code(Rule::kDelta, 0.05, 10), Code::kOk);
  EXPECT_EQ(code(Rule::kDelta, 0.05, 20), Code::kInvalidArgument);
  EXPECT_EQ(code(Rule::kEma, 0.2, 10), Code::kOk);
  EXPECT_EQ(code(Rule::kEma, 0.3, 10), Code::kInvalidArgument);
  EXPECT_EQ(code(Rule::kEma, 1.0, 1), Code::kOk);
}

TEST(Stability, TheTextNamesTheLargestWindowOfRandomSubsets) {
  AveragerConfig config = setting(Rule::kEma, AveragingMode::kDeterministic, 50);
  config.selection = Selection::kRandom;
  const std::string text = check_stability(config, 1).text();
  EXPECT_NE(text.find("random subsets of 0.05"), std::string::npos) << text;
  EXPECT_NE(text.find("q = 3 writes"), std::string::npos) << text;
  const auto at = text.find("window of at most ");
  ASSERT_NE(at, std::string::npos) << text;
  config.window = static_cast<uint32_t>(std::stoul(text.substr(at + 18)));
  EXPECT_TRUE(check_stability(config, 1).ok());
  ++config.window;
  EXPECT_FALSE(check_stability(config, 1).ok());
}

TEST(Stability, TheTextGivesTheRemedy) {
  const Status status = check_stability(setting(Rule::kEma, AveragingMode::kOpportunistic, 10), 1);
  EXPECT_NE(status.text().find("window of at most 3"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("momentum_first >= 0.9"), std::string::npos) << status.text();
}

TEST(Stability, ScaleCountsIntoTheGain) {
  AveragerConfig config = setting(Rule::kEma, AveragingMode::kDeterministic, 9);
  EXPECT_FALSE(check_stability(config, 3).ok());
  config.scale = 0.8;
  EXPECT_TRUE(check_stability(config, 3).ok());
  config.scale = 1.5;
  EXPECT_TRUE(check_stability(config, 20).ok());
  config.momentum_first = config.momentum_last = 0.99;
  EXPECT_FALSE(check_stability(config, 3).ok());
}

TEST(Fingerprint, ChangesWithEverythingThatMustAgree) {
  const std::vector<TensorIdentity> table{{.id = 1, .count = 10, .dtype = 1, .layout = 5},
                                          {.id = 2, .count = 20, .dtype = 1, .layout = 6}};
  const AveragerConfig config;
  const uint64_t base = group_fingerprint(table, 2, config);
  EXPECT_EQ(group_fingerprint(table, 2, AveragerConfig{}), base);
  const std::vector<TensorIdentity> swapped{table[1], table[0]};
  EXPECT_NE(group_fingerprint(swapped, 2, config), base);
  EXPECT_NE(group_fingerprint(table, 3, config), base);
  const auto changed = [&](auto change) {
    AveragerConfig other;
    change(other);
    return group_fingerprint(table, 2, other) != base;
  };
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.selection = Selection::kRandom; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.fraction = 0.1; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.granularity = 1; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.rule = Rule::kDelta; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.mode = AveragingMode::kDeterministic; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.window = 3; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.redraw = Redraw::kFixed; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.seed = 3; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.group_key = 3; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.encoding = kernels::Encoding::kBfloat16; }));
  EXPECT_TRUE(changed([](AveragerConfig& c) { c.rounding = kernels::Rounding::kStochastic; }));
  EXPECT_FALSE(changed([](AveragerConfig& c) { c.momentum_last = 0.9; }));
}

}  // namespace
}  // namespace asyncmesh
