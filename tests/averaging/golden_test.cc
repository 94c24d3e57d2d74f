// The golden vectors of O-23, exact in binary floating point: R = 2, n = 4, p = 0.5, fixed parts
// {0, 2} and {1, 3}, start 0; before each of 6 calls replica r adds (r + 1)(j + 1) to coordinate j.
#include <gtest/gtest.h>

#include "averaging/replicas.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;

struct Golden {
  const char* name;
  uint32_t tau;
  Rule rule;
  EmaInit init;
  std::vector<float> first;
  std::vector<float> second;
};

class GoldenVectors : public testing::TestWithParam<Golden> {};

TEST_P(GoldenVectors, AreReproducedExactly) {
  const Golden& golden = GetParam();
  AveragerConfig config = oracle_config(golden.rule, 0.5, golden.tau);
  config.init = golden.init;
  Replicas replicas(2, config, {4});
  for (int call = 0; call < 6; ++call) {
    for (uint32_t r = 0; r < 2; ++r) {
      replicas.add(r, [r](uint64_t j) { return static_cast<float>((r + 1) * (j + 1)); });
    }
    replicas.call_all({});
  }
  EXPECT_EQ(replicas.weights(0), golden.first);
  EXPECT_EQ(replicas.weights(1), golden.second);
}

INSTANTIATE_TEST_SUITE_P(
    O23, GoldenVectors,
    testing::Values(
        Golden{"tau0_average",
               0,
               Rule::kAverage,
               EmaInit::kParity,
               {8.5, 18, 25.5, 36},
               {9.5, 18, 28.5, 36}},
        Golden{"tau0_delta",
               0,
               Rule::kDelta,
               EmaInit::kParity,
               {8.5, 18, 25.5, 36},
               {9.5, 18, 28.5, 36}},
        Golden{
            "tau0_ema", 0, Rule::kEma, EmaInit::kParity, {8.5, 18, 25.5, 36}, {9.5, 18, 28.5, 36}},
        Golden{"tau1_average",
               1,
               Rule::kAverage,
               EmaInit::kParity,
               {4.5, 11, 13.5, 22},
               {4.5, 13, 13.5, 26}},
        Golden{"tau1_delta",
               1,
               Rule::kDelta,
               EmaInit::kParity,
               {8.5, 16, 25.5, 32},
               {9.5, 20, 28.5, 40}},
        Golden{"tau1_ema",
               1,
               Rule::kEma,
               EmaInit::kParity,
               {8.5, 14, 25.5, 28},
               {9.5, 17.5, 28.5, 35}},
        Golden{"tau1_ema_zero",
               1,
               Rule::kEma,
               EmaInit::kZero,
               {7.25, 14, 21.75, 28},
               {8.125, 17.5, 24.375, 35}},
        Golden{"tau2_average",
               2,
               Rule::kAverage,
               EmaInit::kParity,
               {5.5, 12, 16.5, 24},
               {6.5, 12, 19.5, 24}},
        Golden{"tau2_delta", 2, Rule::kDelta, EmaInit::kParity, {8, 18, 24, 36}, {10, 18, 30, 36}},
        Golden{"tau2_ema",
               2,
               Rule::kEma,
               EmaInit::kParity,
               {7.75, 15, 23.25, 30},
               {10.25, 15, 30.75, 30}}),
    [](const testing::TestParamInfo<Golden>& golden) { return std::string(golden.param.name); });

}  // namespace
}  // namespace asyncmesh::test
