// What an averager's rounds travel as, what its tables are stored in, and the threads it works
// with.
#include <algorithm>

#include "capi/averager_runs.h"

namespace asyncmesh_test {
namespace {

class AveragerForms : public testing::TestWithParam<Medium> {};
INSTANTIATE_TEST_SUITE_P(Media, AveragerForms, testing::ValuesIn(kMedia),
                         [](const auto& medium) { return medium.param.name; });

// ---- Wires ------------------------------------------------------------------------------------

TEST_P(AveragerForms, RunsInEightBitsRoundedStochasticallyRepeat) {
  expect_repeatable(GetParam(), {ASYNCMESH_WIRE_INT8, ASYNCMESH_ROUNDING_STOCHASTIC});
}

TEST_P(AveragerForms, RunsInFourBitsRepeat) {
  expect_repeatable(GetParam(), {.wire = ASYNCMESH_WIRE_INT4});
}

TEST(AveragerForm, EveryWireAndRoundingIsARunOfItsOwn) {
  std::vector<std::vector<float>> seen;
  for (const asyncmesh_wire_t wire : {ASYNCMESH_WIRE_BFLOAT16, ASYNCMESH_WIRE_FLOAT16,
                                      ASYNCMESH_WIRE_INT8, ASYNCMESH_WIRE_INT4}) {
    seen.push_back(deterministic_run(kMedia[0], {.wire = wire}));
    seen.push_back(deterministic_run(kMedia[0], {wire, ASYNCMESH_ROUNDING_STOCHASTIC}));
  }
  seen.push_back(deterministic_run(kMedia[0], {}));
  for (size_t i = 0; i < seen.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(seen[i], seen[j]) << i << " " << j;
    // Two replicas of different starts and steps that have come near each other.
    for (size_t k = 0; k < seen[i].size(); ++k)
      EXPECT_NEAR(seen[i][k], seen.back()[k], 0.35) << i << " " << k;
  }
}

TEST(AveragerForm, KernelThreadsChangeNoResult) {
  constexpr size_t kElements = 300'000;
  for (const asyncmesh_wire_t wire : {ASYNCMESH_WIRE_FLOAT32, ASYNCMESH_WIRE_INT8}) {
    const Travel travel{wire, ASYNCMESH_ROUNDING_STOCHASTIC};
    const std::vector<float> alone = deterministic_run(kMedia[0], travel, 1, kElements);
    EXPECT_EQ(deterministic_run(kMedia[0], travel, 2, kElements), alone);
    EXPECT_EQ(deterministic_run(kMedia[0], travel, 3, kElements), alone);
  }
}

// Of one context, from two threads: each has the kernel threads or works alone.
TEST(AveragerForm, MayBeCalledWhileAnOptimiserSteps) {
  run_ranks({.replicas = 2, .kernel_threads = 2}, [](Rank& rank) {
    std::vector<float> averaged(300'000, static_cast<float>(rank.rank));
    std::vector<float> stepped(200'000, 1.0F), gradient(200'000, 0.5F);
    asyncmesh_region_t* region = make_region(rank.context, {&averaged});
    asyncmesh_region_t* weights = make_region(rank.context, {&stepped});
    asyncmesh_region_t* gradients = make_region(rank.context, {&gradient});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    config.rule = ASYNCMESH_RULE_AVERAGE;
    config.window = 0;
    config.fraction = 1.0;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    asyncmesh_optimiser_t* optimiser = nullptr;
    CHECK_OK(asyncmesh_optimiser_create(weights, gradients, nullptr, &optimiser));
    std::thread training([&] {
      asyncmesh_optimiser_step_t step = ASYNCMESH_OPTIMISER_STEP_INIT;
      step.lr = 0.01;
      for (int i = 0; i < 20; ++i)
        EXPECT_EQ(asyncmesh_optimiser_step(optimiser, &step, nullptr), ASYNCMESH_OK);
    });
    for (int call = 0; call < 20; ++call)
      CHECK_OK(asyncmesh_averager_call(averager, nullptr, nullptr));
    training.join();
    for (const float value : averaged) ASSERT_EQ(value, 0.5F);
    for (const float value : stepped) ASSERT_EQ(value, stepped[0]);
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    rank.leave();
    asyncmesh_optimiser_destroy(optimiser);
    asyncmesh_averager_destroy(averager);
    for (asyncmesh_region_t* used : {region, weights, gradients}) asyncmesh_region_destroy(used);
  });
}

TEST(AveragerForm, ADifferentWireOrRoundingIsNamed) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<float> weights(1000);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    const auto expect_named = [&](const asyncmesh_averager_config_t& config, const char* text) {
      asyncmesh_averager_t* averager = nullptr;
      EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, &config, &averager),
                ASYNCMESH_MISMATCH);
      EXPECT_NE(std::string(asyncmesh_last_error()).find(text), std::string::npos)
          << asyncmesh_last_error();
    };
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.wire = rank.rank == 0 ? ASYNCMESH_WIRE_INT8 : ASYNCMESH_WIRE_INT4;
    expect_named(config, rank.rank == 0 ? "wire is INT8 here and INT4 there"
                                        : "wire is INT4 here and INT8 there");
    config.wire = ASYNCMESH_WIRE_INT8;
    config.rounding = rank.rank;
    expect_named(config, "rounding is");
    asyncmesh_region_destroy(region);
  });
}

// ---- Storages ---------------------------------------------------------------------------------

TEST(AveragerForm, RefreshesAMirrorInBfloat16AndRefusesOtherTables) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<float> weights(1000, 1.0F + 0.003F * static_cast<float>(rank.rank));
    std::vector<uint16_t> copy(1000), shorter(999);
    std::vector<int64_t> integers(1000);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    config.window = 0;
    config.fraction = 1.0;
    config.wire = ASYNCMESH_WIRE_INT8;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    asyncmesh_averager_call_t call = ASYNCMESH_AVERAGER_CALL_INIT;
    for (asyncmesh_region_t* wrong :
         {make_bfloat16_region(rank.context, {&shorter}),
          make_region_of<int64_t>(rank.context, {&integers}, ASYNCMESH_INT64)}) {
      call.mirror = wrong;
      EXPECT_EQ(asyncmesh_averager_call(averager, &call, nullptr), ASYNCMESH_INVALID_ARGUMENT);
      EXPECT_EQ(std::string(asyncmesh_last_error()).rfind("mirror: ", 0), 0u);
      asyncmesh_region_destroy(wrong);
    }
    call.mirror = make_bfloat16_region(rank.context, {&copy});
    CHECK_OK(asyncmesh_averager_call(averager, &call, nullptr));
    for (size_t i = 0; i < copy.size(); ++i) ASSERT_EQ(copy[i], to_bfloat16(weights[i]));
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(call.mirror);
    asyncmesh_region_destroy(region);
  });
}

TEST_P(AveragerForms, TablesWithoutMastersEndInOneModel) {
  run_ranks(over(GetParam(), {.replicas = 2}), [](Rank& rank) {
    const bool first = rank.rank == 0;
    std::vector<uint16_t> large(5000, to_bfloat16(first ? 1.0F : 2.0F));
    std::vector<uint16_t> small(7, to_bfloat16(first ? -1.0F : 0.0F));
    asyncmesh_region_t* region = make_bfloat16_region(rank.context, {&large, &small});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    config.rule = ASYNCMESH_RULE_DELTA;
    config.redraw = ASYNCMESH_REDRAW_NEVER;
    config.window = 2;
    config.fraction = 0.25;
    config.wire = ASYNCMESH_WIRE_BFLOAT16;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    for (int call = 0; call < 12; ++call)
      CHECK_OK(asyncmesh_averager_call(averager, nullptr, nullptr));
    for (const uint16_t word : large) ASSERT_EQ(word, to_bfloat16(1.5F));
    for (const uint16_t word : small) ASSERT_EQ(word, to_bfloat16(-0.5F));
    large.assign(5000, to_bfloat16(first ? 1.0F : 3.0F));
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    for (const uint16_t word : large) ASSERT_EQ(word, to_bfloat16(2.0F));
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
}

TEST(AveragerForm, ADifferentDtypeIsNamed) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<uint16_t> words(1000);
    asyncmesh_region_t* region = make_region_of<uint16_t>(
        rank.context, {&words}, rank.rank == 0 ? ASYNCMESH_BFLOAT16 : ASYNCMESH_FLOAT16);
    asyncmesh_averager_t* averager = nullptr;
    EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, nullptr, &averager), ASYNCMESH_MISMATCH);
    EXPECT_NE(std::string(asyncmesh_last_error()).find("dtype is "), std::string::npos)
        << asyncmesh_last_error();
    asyncmesh_region_destroy(region);
  });
}

}  // namespace
}  // namespace asyncmesh_test
