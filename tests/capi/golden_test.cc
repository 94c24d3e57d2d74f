// The golden vectors of the averaging rules, through the C API: exact in binary floating point.
#include <array>

#include "capi/ranks.h"

namespace asyncmesh_test {
namespace {

struct Golden {
  const char* name;
  uint32_t tau;
  uint32_t rule;
  uint32_t init;
  std::array<float, 4> expected[2];
};

constexpr Golden kGolden[] = {
    {"tau0_average",
     0,
     ASYNCMESH_RULE_AVERAGE,
     ASYNCMESH_INIT_PARITY,
     {{8.5F, 18, 25.5F, 36}, {9.5F, 18, 28.5F, 36}}},
    {"tau0_delta",
     0,
     ASYNCMESH_RULE_DELTA,
     ASYNCMESH_INIT_PARITY,
     {{8.5F, 18, 25.5F, 36}, {9.5F, 18, 28.5F, 36}}},
    {"tau0_ema",
     0,
     ASYNCMESH_RULE_EMA,
     ASYNCMESH_INIT_PARITY,
     {{8.5F, 18, 25.5F, 36}, {9.5F, 18, 28.5F, 36}}},
    {"tau1_average",
     1,
     ASYNCMESH_RULE_AVERAGE,
     ASYNCMESH_INIT_PARITY,
     {{4.5F, 11, 13.5F, 22}, {4.5F, 13, 13.5F, 26}}},
    {"tau1_delta",
     1,
     ASYNCMESH_RULE_DELTA,
     ASYNCMESH_INIT_PARITY,
     {{8.5F, 16, 25.5F, 32}, {9.5F, 20, 28.5F, 40}}},
    {"tau1_ema",
     1,
     ASYNCMESH_RULE_EMA,
     ASYNCMESH_INIT_PARITY,
     {{8.5F, 14, 25.5F, 28}, {9.5F, 17.5F, 28.5F, 35}}},
    {"tau1_ema_zero",
     1,
     ASYNCMESH_RULE_EMA,
     ASYNCMESH_INIT_ZERO,
     {{7.25F, 14, 21.75F, 28}, {8.125F, 17.5F, 24.375F, 35}}},
    {"tau2_average",
     2,
     ASYNCMESH_RULE_AVERAGE,
     ASYNCMESH_INIT_PARITY,
     {{5.5F, 12, 16.5F, 24}, {6.5F, 12, 19.5F, 24}}},
    {"tau2_delta",
     2,
     ASYNCMESH_RULE_DELTA,
     ASYNCMESH_INIT_PARITY,
     {{8, 18, 24, 36}, {10, 18, 30, 36}}},
    {"tau2_ema",
     2,
     ASYNCMESH_RULE_EMA,
     ASYNCMESH_INIT_PARITY,
     {{7.75F, 15, 23.25F, 30}, {10.25F, 15, 30.75F, 30}}},
};

class GoldenRow : public testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(Rows, GoldenRow, testing::ValuesIn(kGolden),
                         [](const auto& row) { return row.param.name; });

TEST_P(GoldenRow, IsExact) {
  const Golden& row = GetParam();
  run_ranks({.replicas = 2}, [&row](Rank& rank) {
    std::vector<float> weights(4);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.rule = row.rule;
    config.init = row.init;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    config.window = row.tau;
    config.granularity = 1;
    config.redraw = ASYNCMESH_REDRAW_NEVER;
    config.fraction = 0.5;
    config.momentum_first = config.momentum_last = 0.5;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    for (int call = 0; call < 6; ++call) {
      for (size_t j = 0; j < 4; ++j) weights[j] += static_cast<float>((rank.rank + 1) * (j + 1));
      CHECK_OK(asyncmesh_averager_call(averager, nullptr, nullptr));
    }
    for (size_t j = 0; j < 4; ++j)
      EXPECT_EQ(weights[j], row.expected[rank.rank][j]) << "replica " << rank.rank << " at " << j;
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
}

TEST(AveragerSelection, ARandomRoundWritesWhatThePartitionSays) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<float> weights(200, rank.rank == 0 ? 0.0F : 2.0F);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    config.window = 0;
    config.granularity = 1;
    config.fraction = 0.3;
    config.selection = ASYNCMESH_SELECTION_RANDOM;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    std::vector<uint8_t> written(weights.size(), 0);
    for (uint64_t round = 0; round < 5; ++round) {
      std::vector<uint32_t> parts(weights.size());
      CHECK_OK(asyncmesh_averager_partition(averager, round, parts.data(), parts.size()));
      CHECK_OK(asyncmesh_averager_call(averager, nullptr, nullptr));
      for (size_t i = 0; i < weights.size(); ++i) {
        if (parts[i] == 0) written[i] = 1;
        EXPECT_TRUE(parts[i] == 0 || parts[i] == UINT32_MAX);
        EXPECT_EQ(weights[i] == 1.0F, written[i] == 1) << "round " << round << " at " << i;
      }
    }
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
}

}  // namespace
}  // namespace asyncmesh_test
