// Every exported function against what a caller may get wrong: null handle, null output,
// struct_size 0 and too small, an unknown tail that is set (refused) or zero (accepted).
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "capi/ranks.h"

namespace asyncmesh_test {
namespace {

constexpr size_t kTail = 24;

// A struct of a caller that is newer than the library.
template <typename T>
struct Longer {
  T known;
  unsigned char tail[kTail] = {};
};

std::string last_error() { return asyncmesh_last_error(); }

// An input struct: `call` gets a pointer to it. `accepted` is what a good one answers.
template <typename T, typename Call>
void expect_in_rule(const char* name, const T& good, Call call,
                    std::initializer_list<asyncmesh_status_t> accepted = {ASYNCMESH_OK}) {
  SCOPED_TRACE(name);
  for (const uint32_t size : {0u, 3u, static_cast<uint32_t>(sizeof(T) - 1), 1u << 20}) {
    T bad = good;
    bad.struct_size = size;
    EXPECT_EQ(call(&bad), ASYNCMESH_INVALID_ARGUMENT) << size;
    EXPECT_NE(last_error().find("struct_size"), std::string::npos) << last_error();
  }
  Longer<T> longer{good};
  longer.known.struct_size = sizeof longer;
  longer.tail[kTail - 1] = 1;
  EXPECT_EQ(call(&longer.known), ASYNCMESH_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("not zero"), std::string::npos) << last_error();
  longer.tail[kTail - 1] = 0;
  const asyncmesh_status_t status = call(&longer.known);
  EXPECT_NE(std::find(accepted.begin(), accepted.end(), status), accepted.end())
      << asyncmesh_status_name(status) << " " << last_error();
}

// An output struct: written as far as both know it, the rest zeroed.
template <typename T, typename Call>
void expect_filled(Call call) {
  for (const uint32_t size : {0u, 3u, static_cast<uint32_t>(sizeof(T) - 1), 1u << 20}) {
    T bad = {};
    bad.struct_size = size;
    EXPECT_EQ(call(&bad), ASYNCMESH_INVALID_ARGUMENT) << size;
    EXPECT_EQ(bad.struct_size, size);
  }
  Longer<T> longer = {};
  longer.known.struct_size = sizeof longer;
  std::fill(longer.tail, longer.tail + kTail, static_cast<unsigned char>(0xee));
  EXPECT_EQ(call(&longer.known), ASYNCMESH_OK) << last_error();
  EXPECT_EQ(longer.known.struct_size, sizeof longer);
  for (const unsigned char byte : longer.tail) EXPECT_EQ(byte, 0);
}
template <typename T, typename Call>
void expect_out_rule(const char* name, Call call) {
  SCOPED_TRACE(name);
  EXPECT_EQ(call(static_cast<T*>(nullptr)), ASYNCMESH_INVALID_ARGUMENT);
  expect_filled<T>(call);
}

void expect_null(asyncmesh_status_t status, const char* what) {
  EXPECT_EQ(status, ASYNCMESH_INVALID_ARGUMENT) << what;
  EXPECT_NE(last_error().find("null"), std::string::npos) << what << ": " << last_error();
}
#define EXPECT_NULL(call) expect_null(call, #call)

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
  setenv("ASYNCMESH_ENGINE", "tag", 1);
  CHECK_OK(asyncmesh_config_from_env(&config, nullptr));
  EXPECT_EQ(config.engine, static_cast<uint32_t>(ASYNCMESH_ENGINE_TAG));
  unsetenv("ASYNCMESH_ENGINE");
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
  refused([](auto& c) { c.reserved = 1; }, ASYNCMESH_INVALID_ARGUMENT);
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

// Collective: both ranks walk through the same table.
TEST(Contract, AveragerAndPort) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<float> values(2000);
    std::vector<float> other(1999);
    asyncmesh_region_t* region = make_region(rank.context, {&values});
    asyncmesh_region_t* wrong = make_region(rank.context, {&other});
    asyncmesh_averager_t* averager = nullptr;
    EXPECT_NULL(asyncmesh_averager_create(rank.mesh, nullptr, nullptr, &averager));
    EXPECT_NULL(asyncmesh_averager_create(rank.mesh, region, nullptr, nullptr));
    const asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    expect_in_rule("averager_create", config, [&](const asyncmesh_averager_config_t* given) {
      asyncmesh_averager_t* made = nullptr;
      const asyncmesh_status_t status = asyncmesh_averager_create(rank.mesh, region, given, &made);
      if (status == ASYNCMESH_OK) CHECK_OK(asyncmesh_averager_finish(made, 20 * kSecond));
      asyncmesh_averager_destroy(made);
      return status;
    });
    const auto refused = [&](auto change) {
      asyncmesh_averager_config_t bad = config;
      change(bad);
      EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, &bad, &averager),
                ASYNCMESH_INVALID_ARGUMENT);
    };
    refused([](auto& c) { c.rule = 3; });
    refused([](auto& c) { c.init = 3; });
    refused([](auto& c) { c.mode = 2; });
    refused([](auto& c) { c.redraw = 2; });
    refused([](auto& c) { c.selection = 2; });
    refused([](auto& c) { c.reserved = 1; });
    refused([](auto& c) { c.wire = ASYNCMESH_INT64; });
    refused([](auto& c) { c.fraction = 0; });
    refused([](auto& c) { c.granularity = 0; });
    CHECK_OK(asyncmesh_averager_create(rank.mesh, region, &config, &averager));
    asyncmesh_averager_t* twin = nullptr;
    EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, &config, &twin),
              ASYNCMESH_INVALID_STATE);

    expect_in_rule("averager_call", asyncmesh_averager_call_t ASYNCMESH_AVERAGER_CALL_INIT,
                   [&](const asyncmesh_averager_call_t* given) {
                     return asyncmesh_averager_call(averager, given, nullptr);
                   });
    asyncmesh_averager_call_t mirrored = ASYNCMESH_AVERAGER_CALL_INIT;
    mirrored.mirror = wrong;
    EXPECT_EQ(asyncmesh_averager_call(averager, &mirrored, nullptr), ASYNCMESH_INVALID_ARGUMENT);
    asyncmesh_averager_result_t result = {};
    EXPECT_EQ(asyncmesh_averager_call(averager, nullptr, &result), ASYNCMESH_INVALID_ARGUMENT);
    expect_out_rule<asyncmesh_averager_info_t>(
        "averager_query", [&](auto* info) { return asyncmesh_averager_query(averager, info); });
    EXPECT_NULL(asyncmesh_averager_mean(averager, nullptr, region, nullptr));
    EXPECT_NULL(asyncmesh_averager_mean(averager, region, nullptr, nullptr));
    EXPECT_EQ(asyncmesh_averager_mean(averager, region, wrong, nullptr),
              ASYNCMESH_INVALID_ARGUMENT);
    expect_in_rule("averager_mean", asyncmesh_mean_t ASYNCMESH_MEAN_INIT,
                   [&](const asyncmesh_mean_t* given) {
                     return asyncmesh_averager_mean(averager, region, region, given);
                   });
    uint64_t need = 0;
    EXPECT_NULL(asyncmesh_averager_partition(averager, 0, nullptr, 2000));
    EXPECT_NULL(asyncmesh_averager_save(averager, nullptr, 0, nullptr));
    EXPECT_NULL(asyncmesh_averager_save(averager, nullptr, 9, &need));
    EXPECT_NULL(asyncmesh_averager_load(averager, nullptr, 9));

    asyncmesh_port_t* port = nullptr;
    asyncmesh_port_config_t port_config = ASYNCMESH_PORT_CONFIG_INIT;
    port_config.kind = ASYNCMESH_PORT_MAILBOX;
    port_config.payload_bytes = 100;
    EXPECT_NULL(asyncmesh_port_open(rank.mesh, nullptr, &port));
    EXPECT_NULL(asyncmesh_port_open(rank.mesh, &port_config, nullptr));
    expect_in_rule("port_open", port_config, [&](const asyncmesh_port_config_t* given) {
      asyncmesh_port_t* made = nullptr;
      const asyncmesh_status_t status = asyncmesh_port_open(rank.mesh, given, &made);
      asyncmesh_port_close(made);
      return status;
    });
    const auto port_refused = [&](auto change) {
      asyncmesh_port_config_t bad = port_config;
      change(bad);
      EXPECT_EQ(asyncmesh_port_open(rank.mesh, &bad, &port), ASYNCMESH_INVALID_ARGUMENT);
    };
    port_refused([](auto& c) { c.kind = 3; });
    port_refused([](auto& c) { c.slots = 3; });
    port_refused([](auto& c) { c.slots = 1u << 20; });
    port_refused([](auto& c) { c.payload_bytes = 0; });
    port_refused([](auto& c) { c.payload_bytes = UINT32_MAX; });
    port_refused([](auto& c) { c.max_untaken = 9; });
    port_refused([&](auto& c) {
      c.kind = ASYNCMESH_PORT_CHANNEL_IN;
      c.peer = rank.rank;
    });
    port_config.tag = 1;  // the other rank may still be in the loop above
    CHECK_OK(asyncmesh_port_open(rank.mesh, &port_config, &port));
    EXPECT_NULL(asyncmesh_port_send(port, nullptr));
    expect_in_rule("port_send", asyncmesh_send_t ASYNCMESH_SEND_INIT,
                   [&](const asyncmesh_send_t* given) { return asyncmesh_port_send(port, given); });
    const auto send_refused = [&](auto change, asyncmesh_status_t expected) {
      asyncmesh_send_t bad = ASYNCMESH_SEND_INIT;
      change(bad);
      EXPECT_EQ(asyncmesh_port_send(port, &bad), expected);
    };
    send_refused([](auto& s) { s.kind = 0; }, ASYNCMESH_INVALID_ARGUMENT);
    send_refused([](auto& s) { s.bytes = 1; }, ASYNCMESH_INVALID_ARGUMENT);
    send_refused([](auto& s) { s.dimensions = 5; }, ASYNCMESH_INVALID_ARGUMENT);
    send_refused([](auto& s) { s.dtype = 77; }, ASYNCMESH_INVALID_ARGUMENT);
    send_refused(
        [&](auto& s) {
          s.data = values.data();
          s.bytes = UINT64_MAX;
        },
        ASYNCMESH_TOO_LARGE);
    expect_out_rule<asyncmesh_message_t>("port_recv", [&](asyncmesh_message_t* message) {
      return asyncmesh_port_recv(port, 0, 20 * kSecond, message);
    });
    EXPECT_EQ(asyncmesh_port_release(port, 12345), ASYNCMESH_INVALID_ARGUMENT);
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    rank.leave();
    asyncmesh_port_close(port);
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(wrong);
    asyncmesh_region_destroy(region);
  });
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
  run_ranks({.replicas = 1}, [](Rank& rank) {
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
