// The part of the contract that needs two ranks: averagers and ports.
#include "capi/struct_rule.h"

namespace asyncmesh_test {
namespace {

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

}  // namespace
}  // namespace asyncmesh_test
