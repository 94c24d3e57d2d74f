// The optimiser and the stage order through the C API. No mesh needed.
#include <cmath>

#include "capi/ranks.h"

namespace asyncmesh_test {
namespace {

class Optimiser : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(asyncmesh_context_create(nullptr, &context_), ASYNCMESH_OK); }
  void TearDown() override { asyncmesh_context_destroy(context_); }

  // f = w^2 / 2 from w = 1, learning rate 0.1.
  void expect_path(const asyncmesh_optimiser_config_t& config, const double (&expected)[6]) {
    std::vector<float> weight{1.0F};
    std::vector<float> gradient{0.0F};
    asyncmesh_region_t* weights = make_region(context_, {&weight});
    asyncmesh_region_t* gradients = make_region(context_, {&gradient});
    asyncmesh_optimiser_t* optimiser = nullptr;
    CHECK_OK(asyncmesh_optimiser_create(weights, gradients, &config, &optimiser));
    asyncmesh_optimiser_step_t step = ASYNCMESH_OPTIMISER_STEP_INIT;
    step.lr = 0.1;
    for (const double value : expected) {
      gradient[0] = weight[0];
      double norm = 0;
      CHECK_OK(asyncmesh_optimiser_step(optimiser, &step, &norm));
      EXPECT_NEAR(norm, std::abs(gradient[0]), 1e-6);
      EXPECT_NEAR(weight[0], value, 2e-6);
    }
    asyncmesh_optimiser_destroy(optimiser);
    asyncmesh_region_destroy(gradients);
    asyncmesh_region_destroy(weights);
  }

  asyncmesh_context_t* context_ = nullptr;
};

TEST_F(Optimiser, FollowsTheReferencePath) {
  asyncmesh_optimiser_config_t config = ASYNCMESH_OPTIMISER_CONFIG_INIT;
  expect_path(config, {0.898344031787, 0.833117215611, 0.778301095612, 0.728096182309,
                       0.680515285639, 0.634779223519});
  config.beta1 = 0.9;
  config.weight_decay = 0;
  expect_path(config, {0.894354823221, 0.819973071532, 0.752729267616, 0.687716052741,
                       0.623662893783, 0.560437429154});
}

TEST_F(Optimiser, SkipsAndRefusesWithoutAChange) {
  std::vector<float> weight{1.0F, 2.0F};
  std::vector<float> gradient{1.0F, 1.0F};
  std::vector<float> copy(2);
  asyncmesh_region_t* weights = make_region(context_, {&weight});
  asyncmesh_region_t* gradients = make_region(context_, {&gradient});
  asyncmesh_region_t* mirror = make_region(context_, {&copy});
  asyncmesh_optimiser_t* optimiser = nullptr;
  CHECK_OK(asyncmesh_optimiser_create(weights, gradients, nullptr, &optimiser));
  asyncmesh_optimiser_step_t step = ASYNCMESH_OPTIMISER_STEP_INIT;
  step.lr = 0.1;
  step.skip = 1;
  CHECK_OK(asyncmesh_optimiser_step(optimiser, &step, nullptr));
  EXPECT_EQ(weight, (std::vector<float>{1.0F, 2.0F}));
  step.skip = 0;
  gradient[1] = INFINITY;
  double norm = -1;
  EXPECT_EQ(asyncmesh_optimiser_step(optimiser, &step, &norm), ASYNCMESH_INVALID_ARGUMENT);
  EXPECT_EQ(weight, (std::vector<float>{1.0F, 2.0F}));
  EXPECT_EQ(norm, -1);
  gradient[1] = 1.0F;
  step.mirror = mirror;
  step.clip_norm = 0.5;
  CHECK_OK(asyncmesh_optimiser_step(optimiser, &step, &norm));
  EXPECT_NEAR(norm, std::sqrt(2.0), 1e-6);
  EXPECT_EQ(copy, weight);
  EXPECT_NE(weight[0], 1.0F);
  uint64_t need = 0;
  EXPECT_EQ(asyncmesh_optimiser_save(optimiser, nullptr, 0, &need), ASYNCMESH_TOO_LARGE);
  std::vector<std::byte> state(need);
  CHECK_OK(asyncmesh_optimiser_save(optimiser, state.data(), need, &need));
  CHECK_OK(asyncmesh_optimiser_load(optimiser, state.data(), need));
  EXPECT_EQ(asyncmesh_optimiser_load(optimiser, state.data(), need - 1), ASYNCMESH_MISMATCH);
  // Children keep their parents: any order of destruction is fine.
  asyncmesh_region_destroy(weights);
  asyncmesh_region_destroy(gradients);
  CHECK_OK(asyncmesh_optimiser_step(optimiser, &step, nullptr));
  asyncmesh_region_destroy(mirror);
  asyncmesh_optimiser_destroy(optimiser);
}

TEST_F(Optimiser, RefreshesAMirrorInBfloat16) {
  std::vector<float> weight(1000), gradient(1000);
  std::vector<uint16_t> copy(1000);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = 1.0F + 1e-3F * static_cast<float>(i);
  gradient = weight;
  asyncmesh_region_t* weights = make_region(context_, {&weight});
  asyncmesh_region_t* gradients = make_region(context_, {&gradient});
  asyncmesh_region_t* mirror = make_bfloat16_region(context_, {&copy});
  asyncmesh_optimiser_t* optimiser = nullptr;
  CHECK_OK(asyncmesh_optimiser_create(weights, gradients, nullptr, &optimiser));
  asyncmesh_optimiser_step_t step = ASYNCMESH_OPTIMISER_STEP_INIT;
  step.lr = 0.1;
  step.mirror = mirror;
  for (const uint32_t skip : {1u, 0u}) {
    step.skip = skip;
    CHECK_OK(asyncmesh_optimiser_step(optimiser, &step, nullptr));
    for (size_t i = 0; i < copy.size(); ++i) ASSERT_EQ(copy[i], to_bfloat16(weight[i])) << i;
  }
  asyncmesh_optimiser_destroy(optimiser);
  for (asyncmesh_region_t* region : {mirror, gradients, weights}) asyncmesh_region_destroy(region);
}

TEST_F(Optimiser, StepsATableWithoutMasters) {
  std::vector<uint16_t> weight(500, to_bfloat16(1.0F)), gradient(500, to_bfloat16(0.5F));
  std::vector<float> exact(500);
  asyncmesh_region_t* weights = make_bfloat16_region(context_, {&weight});
  asyncmesh_region_t* gradients = make_bfloat16_region(context_, {&gradient});
  asyncmesh_region_t* mirror = make_region(context_, {&exact});
  asyncmesh_optimiser_t* optimiser = nullptr;
  EXPECT_EQ(asyncmesh_optimiser_create(weights, mirror, nullptr, &optimiser),
            ASYNCMESH_INVALID_ARGUMENT);
  CHECK_OK(asyncmesh_optimiser_create(weights, gradients, nullptr, &optimiser));
  asyncmesh_optimiser_step_t step = ASYNCMESH_OPTIMISER_STEP_INIT;
  step.lr = 0.1;
  step.mirror = mirror;
  double norm = 0;
  CHECK_OK(asyncmesh_optimiser_step(optimiser, &step, &norm));
  EXPECT_NEAR(norm, std::sqrt(500 * 0.25), 1e-9);
  for (size_t i = 0; i < weight.size(); ++i) {
    ASSERT_LT(exact[i], 0.95F);
    ASSERT_EQ(weight[i], to_bfloat16(exact[i]));
  }
  asyncmesh_optimiser_destroy(optimiser);
  for (asyncmesh_region_t* region : {mirror, gradients, weights}) asyncmesh_region_destroy(region);
}

TEST_F(Optimiser, RefusesTablesThatDiffer) {
  std::vector<float> two(2);
  std::vector<float> three(3);
  asyncmesh_region_t* weights = make_region(context_, {&two});
  asyncmesh_region_t* gradients = make_region(context_, {&three});
  asyncmesh_optimiser_t* optimiser = nullptr;
  EXPECT_EQ(asyncmesh_optimiser_create(weights, gradients, nullptr, &optimiser),
            ASYNCMESH_INVALID_ARGUMENT);
  EXPECT_EQ(optimiser, nullptr);
  asyncmesh_region_destroy(gradients);
  asyncmesh_region_destroy(weights);
}

// ---- Threads of the context --------------------------------------------------------------------

asyncmesh_context_t* context_with(uint32_t kernel_threads) {
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  config.kernel_threads = kernel_threads;
  asyncmesh_context_t* context = nullptr;
  CHECK_OK(asyncmesh_context_create(&config, &context));
  return context;
}

// Some steps on a table that the kernels cut into ranges for their threads.
std::vector<float> stepped(asyncmesh_context_t* context, uint32_t seed) {
  std::vector<float> weight(200'000), gradient(weight.size()), copy(weight.size());
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] = 0.01F * static_cast<float>((i * 31 + seed) % 101) - 0.5F;
  asyncmesh_region_t* weights = make_region(context, {&weight});
  asyncmesh_region_t* gradients = make_region(context, {&gradient});
  asyncmesh_region_t* mirror = make_region(context, {&copy});
  asyncmesh_optimiser_t* optimiser = nullptr;
  CHECK_OK(asyncmesh_optimiser_create(weights, gradients, nullptr, &optimiser));
  asyncmesh_optimiser_step_t step = ASYNCMESH_OPTIMISER_STEP_INIT;
  step.lr = 0.01;
  step.clip_norm = 1.0;
  step.mirror = mirror;
  for (int i = 0; i < 20; ++i) {
    gradient = weight;
    double norm = 0;
    CHECK_OK(asyncmesh_optimiser_step(optimiser, &step, &norm));
    EXPECT_EQ(copy, weight);
  }
  asyncmesh_optimiser_destroy(optimiser);
  asyncmesh_region_destroy(mirror);
  asyncmesh_region_destroy(gradients);
  asyncmesh_region_destroy(weights);
  return weight;
}

TEST(KernelThreads, ChangeNoResultAlsoWhereCallsMeet) {
  asyncmesh_context_t* one = context_with(0);
  const std::vector<float> first = stepped(one, 1);
  const std::vector<float> second = stepped(one, 2);
  asyncmesh_context_destroy(one);
  for (const uint32_t threads : {1u, 2u, 3u}) {
    asyncmesh_context_t* context = context_with(threads);
    EXPECT_EQ(stepped(context, 1), first);
    std::vector<float> beside;
    std::thread other([&] { beside = stepped(context, 2); });
    EXPECT_EQ(stepped(context, 1), first);
    other.join();
    EXPECT_EQ(beside, second);
    asyncmesh_context_destroy(context);
  }
}

TEST(Stage, RunsOneForwardOneBackward) {
  asyncmesh_stage_config_t config = ASYNCMESH_STAGE_CONFIG_INIT;
  config.mode = ASYNCMESH_STAGE_DETERMINISTIC;
  config.stages = 3;
  config.stage = 0;
  config.total = 5;
  asyncmesh_stage_t* stage = nullptr;
  CHECK_OK(asyncmesh_stage_create(&config, &stage));
  std::string order;
  asyncmesh_action_t action = {};
  action.struct_size = sizeof action;
  do {
    CHECK_OK(
        asyncmesh_stage_next(stage, ASYNCMESH_READY_FORWARD | ASYNCMESH_READY_BACKWARD, &action));
    if (action.kind == ASYNCMESH_ACTION_FORWARD) {
      order += 'F';
      EXPECT_EQ(action.version, action.micro_batch < 2 ? 0 : action.micro_batch - 2);
      EXPECT_EQ(action.ring, 3u);
    }
    if (action.kind == ASYNCMESH_ACTION_BACKWARD) order += 'B';
    if (action.kind == ASYNCMESH_ACTION_UPDATE) order += 'U';
  } while (action.kind != ASYNCMESH_ACTION_DONE);
  EXPECT_EQ(order, "FFFBUFBUFBUBUBU");
  EXPECT_EQ(asyncmesh_stage_next(stage, 8, &action), ASYNCMESH_INVALID_ARGUMENT);
  asyncmesh_stage_destroy(stage);
  config.in_flight = 2;
  EXPECT_EQ(asyncmesh_stage_create(&config, &stage), ASYNCMESH_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace asyncmesh_test
