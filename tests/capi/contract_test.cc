// Every exported function against what a caller may get wrong: null handle, null output,
// struct_size 0 and too small, an unknown tail that is set (refused) or zero (accepted).
#include <sys/wait.h>

#include <thread>

#include "capi/struct_rule.h"

namespace asyncmesh_test {
namespace {

TEST(Contract, NullHandlesAreRefusedEverywhere) {
  uint32_t number = 0;
  uint64_t need = 0;
  auto event = asyncmesh_event_t{};
  event.struct_size = sizeof event;
  std::vector<float> values(4);
  asyncmesh_region_t* region = nullptr;
  EXPECT_NULL(asyncmesh_context_do_work(nullptr, &number));
  EXPECT_NULL(asyncmesh_context_poll(nullptr, &event, 1, &number, 0));
  EXPECT_NULL(asyncmesh_counters_read(nullptr, nullptr, 0, &number));
  EXPECT_NULL(asyncmesh_describe(nullptr, nullptr, 0, &need));
  asyncmesh_mesh_t* mesh = nullptr;
  EXPECT_NULL(asyncmesh_mesh_join(nullptr, nullptr, 0, &mesh));
  EXPECT_NULL(asyncmesh_mesh_query(nullptr, nullptr));
  EXPECT_NULL(asyncmesh_mesh_peer(nullptr, 0, nullptr));
  EXPECT_NULL(asyncmesh_mesh_leave(nullptr, 0));
  EXPECT_NULL(asyncmesh_region_create(nullptr, nullptr, 0, &region));
  EXPECT_NULL(asyncmesh_region_rebind(nullptr, nullptr, 0));
  EXPECT_NULL(asyncmesh_averager_create(nullptr, nullptr, nullptr, nullptr));
  EXPECT_NULL(asyncmesh_averager_call(nullptr, nullptr, nullptr));
  EXPECT_NULL(asyncmesh_averager_mean(nullptr, nullptr, nullptr, nullptr));
  EXPECT_NULL(asyncmesh_averager_finish(nullptr, 0));
  EXPECT_NULL(asyncmesh_averager_query(nullptr, nullptr));
  EXPECT_NULL(asyncmesh_averager_partition(nullptr, 0, &number, 1));
  EXPECT_NULL(asyncmesh_averager_save(nullptr, nullptr, 0, &need));
  EXPECT_NULL(asyncmesh_averager_load(nullptr, values.data(), 4));
  EXPECT_NULL(asyncmesh_optimiser_create(nullptr, nullptr, nullptr, nullptr));
  EXPECT_NULL(asyncmesh_optimiser_step(nullptr, nullptr, nullptr));
  EXPECT_NULL(asyncmesh_optimiser_save(nullptr, nullptr, 0, &need));
  EXPECT_NULL(asyncmesh_optimiser_load(nullptr, values.data(), 4));
  EXPECT_NULL(asyncmesh_stage_next(nullptr, 0, nullptr));
  EXPECT_NULL(asyncmesh_port_open(nullptr, nullptr, nullptr));
  EXPECT_NULL(asyncmesh_port_send(nullptr, nullptr));
  EXPECT_NULL(asyncmesh_port_recv(nullptr, 0, 0, nullptr));
  EXPECT_NULL(asyncmesh_port_release(nullptr, 0));
  asyncmesh_context_destroy(nullptr);
  asyncmesh_mesh_destroy(nullptr);
  asyncmesh_region_destroy(nullptr);
  asyncmesh_averager_destroy(nullptr);
  asyncmesh_optimiser_destroy(nullptr);
  asyncmesh_stage_destroy(nullptr);
  asyncmesh_port_close(nullptr);
}

TEST(Contract, VersionsAndNames) {
  EXPECT_EQ(asyncmesh_abi_revision(), ASYNCMESH_ABI_REVISION);
  EXPECT_STREQ(asyncmesh_version_string(), "0.1.0");
  EXPECT_STREQ(asyncmesh_status_name(ASYNCMESH_PEER_LOST), "PEER_LOST");
  EXPECT_STREQ(asyncmesh_status_name(12345), "UNKNOWN");
}

TEST(Contract, ConfigFromEnv) {
  CHECK_OK(asyncmesh_config_from_env(nullptr, nullptr));
  expect_filled<asyncmesh_config_t>(
      [](auto* config) { return asyncmesh_config_from_env(config, nullptr); });
  expect_filled<asyncmesh_mesh_config_t>(
      [](auto* config) { return asyncmesh_config_from_env(nullptr, config); });
  setenv("ASYNCMESH_ENGINE", "warp", 1);
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  EXPECT_EQ(asyncmesh_config_from_env(&config, nullptr), ASYNCMESH_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("ASYNCMESH_ENGINE='warp'"), std::string::npos);
  setenv("ASYNCMESH_KERNEL_THREADS", "3", 1);
  setenv("ASYNCMESH_ENGINE", "tag", 1);
  CHECK_OK(asyncmesh_config_from_env(&config, nullptr));
  EXPECT_EQ(config.engine, static_cast<uint32_t>(ASYNCMESH_ENGINE_TAG));
  EXPECT_EQ(config.kernel_threads, 3u);
  unsetenv("ASYNCMESH_ENGINE");
  unsetenv("ASYNCMESH_KERNEL_THREADS");
}

TEST(Contract, Context) {
  asyncmesh_context_t* context = nullptr;
  EXPECT_NULL(asyncmesh_context_create(nullptr, nullptr));
  const asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  expect_in_rule("context_create", config, [](const asyncmesh_config_t* given) {
    asyncmesh_context_t* made = nullptr;
    const asyncmesh_status_t status = asyncmesh_context_create(given, &made);
    EXPECT_EQ(made != nullptr, status == ASYNCMESH_OK);
    asyncmesh_context_destroy(made);
    return status;
  });
  const auto refused = [&](auto change, asyncmesh_status_t expected) {
    asyncmesh_config_t wrong = config;
    change(wrong);
    EXPECT_EQ(asyncmesh_context_create(&wrong, &context), expected);
    EXPECT_EQ(context, nullptr);
  };
  refused([](auto& c) { c.progress = 2; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& c) { c.engine = 4; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& c) { c.checksum = 2; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& c) { c.log_fd = -2; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& c) { c.log_level = 5; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& c) { c.kernel_threads = 257; }, ASYNCMESH_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("kernel_threads 257"), std::string::npos) << last_error();
  refused([](auto& c) { c.progress_cpu = 100'000; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& c) { std::memset(c.tls, 'x', sizeof c.tls); }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& c) { set_text(c.link, sizeof c.link, "fast"); }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& c) { set_text(c.faults, sizeof c.faults, "x"); }, ASYNCMESH_INVALID_ARGUMENT);
  refused(
      [](auto& c) {
        c.engine = ASYNCMESH_ENGINE_RMA;
        set_text(c.tls, sizeof c.tls, "tcp");
      },
      ASYNCMESH_UNSUPPORTED);
}

TEST(Contract, ContextPollCountersAndDescription) {
  asyncmesh_context_t* context = nullptr;
  CHECK_OK(asyncmesh_context_create(nullptr, &context));
  uint32_t count = 7;
  EXPECT_EQ(asyncmesh_context_do_work(context, nullptr), ASYNCMESH_INVALID_STATE);
  asyncmesh_event_t event = {};
  event.struct_size = sizeof event;
  EXPECT_NULL(asyncmesh_context_poll(context, nullptr, 1, &count, 0));
  EXPECT_NULL(asyncmesh_context_poll(context, &event, 1, nullptr, 0));
  EXPECT_EQ(asyncmesh_context_poll(context, &event, 0, &count, 0), ASYNCMESH_INVALID_ARGUMENT);
  EXPECT_EQ(asyncmesh_context_poll(context, &event, 1, &count, 0), ASYNCMESH_TIMEOUT);
  EXPECT_EQ(asyncmesh_context_poll(context, &event, 1, &count, 1'000'000), ASYNCMESH_TIMEOUT);
  EXPECT_EQ(count, 7u);
  event.struct_size = 8;
  EXPECT_EQ(asyncmesh_context_poll(context, &event, 1, &count, 0), ASYNCMESH_INVALID_ARGUMENT);
  EXPECT_NULL(asyncmesh_counters_read(context, nullptr, 0, nullptr));
  EXPECT_NULL(asyncmesh_counters_read(context, nullptr, 1, &count));
  asyncmesh_counter_t counter = {};
  EXPECT_EQ(asyncmesh_counters_read(context, &counter, 1, &count), ASYNCMESH_INVALID_ARGUMENT);
  CHECK_OK(asyncmesh_counters_read(context, nullptr, 0, &count));
  uint64_t need = 0;
  EXPECT_NULL(asyncmesh_describe(context, nullptr, 0, nullptr));
  EXPECT_NULL(asyncmesh_describe(context, nullptr, 1, &need));
  char small[4] = "abc";
  EXPECT_EQ(asyncmesh_describe(context, small, sizeof small, &need), ASYNCMESH_TOO_LARGE);
  EXPECT_STREQ(small, "abc");
  std::string text(need, ' ');
  CHECK_OK(asyncmesh_describe(context, text.data(), text.size(), &need));
  EXPECT_NE(text.find("\"ucx\""), std::string::npos);
  asyncmesh_context_destroy(context);
}

TEST(Contract, MeshOfOne) {
  asyncmesh_context_t* context = nullptr;
  CHECK_OK(asyncmesh_context_create(nullptr, &context));
  const asyncmesh_mesh_config_t config = ASYNCMESH_MESH_CONFIG_INIT;
  EXPECT_NULL(asyncmesh_mesh_join(context, &config, 0, nullptr));
  expect_in_rule("mesh_join", config, [&](const asyncmesh_mesh_config_t* given) {
    asyncmesh_mesh_t* made = nullptr;
    const asyncmesh_status_t status = asyncmesh_mesh_join(context, given, kSecond, &made);
    asyncmesh_mesh_destroy(made);
    return status;
  });
  asyncmesh_mesh_t* mesh = nullptr;
  const auto refused = [&](auto change) {
    asyncmesh_mesh_config_t wrong = config;
    change(wrong);
    EXPECT_EQ(asyncmesh_mesh_join(context, &wrong, kSecond, &mesh), ASYNCMESH_INVALID_ARGUMENT);
    EXPECT_EQ(mesh, nullptr);
  };
  refused([](auto& c) { c.replicas = 0; });
  refused([](auto& c) { c.rank = 1; });
  refused([](auto& c) { c.stage = 1; });
  refused([](auto& c) { c.replicas = 2; });  // no url
  refused([](auto& c) { c.replicas = c.stages = 1u << 31; });
  refused([](auto& c) { c.reserved = 1; });
  refused([](auto& c) { c.peer_timeout_ns = 5; });
  refused([](auto& c) { std::memset(c.secret, 'x', sizeof c.secret); });
  CHECK_OK(asyncmesh_mesh_join(context, nullptr, kSecond, &mesh));
  asyncmesh_mesh_t* second = nullptr;
  EXPECT_EQ(asyncmesh_mesh_join(context, nullptr, kSecond, &second), ASYNCMESH_INVALID_STATE);
  expect_out_rule<asyncmesh_mesh_info_t>(
      "mesh_query", [&](asyncmesh_mesh_info_t* info) { return asyncmesh_mesh_query(mesh, info); });
  expect_out_rule<asyncmesh_peer_info_t>(
      "mesh_peer", [&](asyncmesh_peer_info_t* info) { return asyncmesh_mesh_peer(mesh, 0, info); });
  asyncmesh_peer_info_t info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(asyncmesh_mesh_peer(mesh, 1, &info), ASYNCMESH_INVALID_ARGUMENT);
  CHECK_OK(asyncmesh_mesh_leave(mesh, kSecond));
  EXPECT_EQ(asyncmesh_mesh_leave(mesh, kSecond), ASYNCMESH_INVALID_STATE);
  asyncmesh_context_destroy(context);  // before its child
  asyncmesh_mesh_destroy(mesh);
}

TEST(Contract, Region) {
  asyncmesh_context_t* context = nullptr;
  CHECK_OK(asyncmesh_context_create(nullptr, &context));
  std::vector<float> values(8);
  asyncmesh_tensor_t good[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    good[i].struct_size = sizeof good[i];
    good[i].data = values.data() + 4 * i;
    good[i].count = 4;
    good[i].id = i;
    good[i].device = -1;
  }
  EXPECT_NULL(asyncmesh_region_create(context, good, 2, nullptr));
  asyncmesh_region_t* region = nullptr;
  EXPECT_NULL(asyncmesh_region_create(context, nullptr, 2, &region));
  EXPECT_EQ(asyncmesh_region_create(context, good, 0, &region), ASYNCMESH_INVALID_ARGUMENT);
  expect_in_rule("region_create", good[0], [&](const asyncmesh_tensor_t* given) {
    asyncmesh_region_t* made = nullptr;
    const asyncmesh_status_t status = asyncmesh_region_create(context, given, 1, &made);
    asyncmesh_region_destroy(made);
    return status;
  });
  const auto refused = [&](auto change, asyncmesh_status_t expected) {
    asyncmesh_tensor_t wrong[2] = {good[0], good[1]};
    change(wrong[1]);
    EXPECT_EQ(asyncmesh_region_create(context, wrong, 2, &region), expected);
    EXPECT_EQ(region, nullptr);
  };
  refused([](auto& t) { t.data = nullptr; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& t) { t.count = 0; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& t) { t.count = UINT64_MAX; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& t) { t.id = 0; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& t) { t.dtype = 9; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& t) { t.reserved = 1; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& t) { t.device = 0; }, ASYNCMESH_UNSUPPORTED);
  refused([&](auto& t) { t.data = values.data() + 3; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([&](auto& t) { t.data = reinterpret_cast<char*>(t.data) + 1; },
          ASYNCMESH_INVALID_ARGUMENT);
  CHECK_OK(asyncmesh_region_create(context, good, 2, &region));
  expect_in_rule(
      "region_rebind", good[0],
      [&](const asyncmesh_tensor_t* given) { return asyncmesh_region_rebind(region, given, 1); },
      {ASYNCMESH_MISMATCH});
  CHECK_OK(asyncmesh_region_rebind(region, good, 2));
  asyncmesh_region_destroy(region);
  asyncmesh_context_destroy(context);
}

TEST(Contract, OptimiserAndStage) {
  asyncmesh_context_t* context = nullptr;
  CHECK_OK(asyncmesh_context_create(nullptr, &context));
  std::vector<float> values(8);
  std::vector<float> slopes(8);
  asyncmesh_region_t* weights = make_region(context, {&values});
  asyncmesh_region_t* gradients = make_region(context, {&slopes});
  asyncmesh_optimiser_t* optimiser = nullptr;
  EXPECT_NULL(asyncmesh_optimiser_create(weights, nullptr, nullptr, &optimiser));
  EXPECT_NULL(asyncmesh_optimiser_create(weights, gradients, nullptr, nullptr));
  expect_in_rule("optimiser_create", asyncmesh_optimiser_config_t ASYNCMESH_OPTIMISER_CONFIG_INIT,
                 [&](const asyncmesh_optimiser_config_t* given) {
                   asyncmesh_optimiser_t* made = nullptr;
                   const asyncmesh_status_t status =
                       asyncmesh_optimiser_create(weights, gradients, given, &made);
                   asyncmesh_optimiser_destroy(made);
                   return status;
                 });
  CHECK_OK(asyncmesh_optimiser_create(weights, gradients, nullptr, &optimiser));
  EXPECT_NULL(asyncmesh_optimiser_step(optimiser, nullptr, nullptr));
  expect_in_rule("optimiser_step", asyncmesh_optimiser_step_t ASYNCMESH_OPTIMISER_STEP_INIT,
                 [&](const asyncmesh_optimiser_step_t* given) {
                   return asyncmesh_optimiser_step(optimiser, given, nullptr);
                 });
  EXPECT_NULL(asyncmesh_optimiser_save(optimiser, nullptr, 0, nullptr));
  EXPECT_NULL(asyncmesh_optimiser_load(optimiser, nullptr, 0));
  asyncmesh_stage_t* stage = nullptr;
  EXPECT_NULL(asyncmesh_stage_create(nullptr, nullptr));
  expect_in_rule("stage_create", asyncmesh_stage_config_t ASYNCMESH_STAGE_CONFIG_INIT,
                 [](const asyncmesh_stage_config_t* given) {
                   asyncmesh_stage_t* made = nullptr;
                   const asyncmesh_status_t status = asyncmesh_stage_create(given, &made);
                   asyncmesh_stage_destroy(made);
                   return status;
                 });
  CHECK_OK(asyncmesh_stage_create(nullptr, &stage));
  expect_out_rule<asyncmesh_action_t>("stage_next", [&](asyncmesh_action_t* action) {
    return asyncmesh_stage_next(stage, 0, action);
  });
  asyncmesh_stage_destroy(stage);
  asyncmesh_optimiser_destroy(optimiser);
  asyncmesh_region_destroy(gradients);
  asyncmesh_region_destroy(weights);
  asyncmesh_context_destroy(context);
}

TEST(Contract, LastErrorBelongsToTheThreadAndAgainLeavesNone) {
  EXPECT_EQ(asyncmesh_stage_next(nullptr, 0, nullptr), ASYNCMESH_INVALID_ARGUMENT);
  const std::string mine = last_error();
  EXPECT_NE(mine, "");
  std::thread([] {
    EXPECT_STREQ(asyncmesh_last_error(), "");
    EXPECT_EQ(asyncmesh_mesh_leave(nullptr, 0), ASYNCMESH_INVALID_ARGUMENT);
    EXPECT_NE(last_error(), "");
  }).join();
  EXPECT_EQ(last_error(), mine);
}

// In the child everything is refused and destroy does nothing; the parent goes on.
TEST(Contract, HandlesDoNotSurviveFork) {
  run_ranks({.replicas = 1, .kernel_threads = 3}, [](Rank& rank) {
    std::vector<float> values(64);
    asyncmesh_region_t* region = make_region(rank.context, {&values});
    asyncmesh_stage_t* stage = nullptr;
    CHECK_OK(asyncmesh_stage_create(nullptr, &stage));
    const pid_t child = fork();
    if (child == 0) {
      uint32_t count = 0;
      asyncmesh_action_t action = {};
      action.struct_size = sizeof action;
      const bool refused =
          asyncmesh_counters_read(rank.context, nullptr, 0, &count) == ASYNCMESH_INVALID_STATE &&
          asyncmesh_mesh_leave(rank.mesh, 0) == ASYNCMESH_INVALID_STATE &&
          asyncmesh_region_rebind(region, nullptr, 0) == ASYNCMESH_INVALID_STATE &&
          asyncmesh_stage_next(stage, 0, &action) == ASYNCMESH_INVALID_STATE;
      asyncmesh_stage_destroy(stage);
      asyncmesh_region_destroy(region);
      asyncmesh_mesh_destroy(rank.mesh);
      asyncmesh_context_destroy(rank.context);
      _exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    uint32_t count = 0;
    CHECK_OK(asyncmesh_counters_read(rank.context, nullptr, 0, &count));
    asyncmesh_stage_destroy(stage);
    asyncmesh_region_destroy(region);
  });
}

}  // namespace
}  // namespace asyncmesh_test
