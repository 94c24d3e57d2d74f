// The part of the contract that needs two ranks: averagers and ports. Collective: both ranks walk
// through the same table.
#include "capi/struct_rule.h"

namespace asyncmesh_test {
namespace {

// A region, and one that does not match it.
struct Regions {
  explicit Regions(const Rank& rank)
      : region(make_region(rank.context, {&values})), wrong(make_region(rank.context, {&other})) {}
  ~Regions() {
    asyncmesh_region_destroy(wrong);
    asyncmesh_region_destroy(region);
  }
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  std::vector<float> values = std::vector<float>(2000);
  std::vector<float> other = std::vector<float>(1999);
  asyncmesh_region_t* region;
  asyncmesh_region_t* wrong;
};

asyncmesh_averager_t* create_averager(const Rank& rank, asyncmesh_region_t* region) {
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
  refused([](auto& c) { c.rounding = 2; });
  refused([](auto& c) { c.wire = ASYNCMESH_INT64; });
  refused([](auto& c) { c.wire = ASYNCMESH_UINT8; });
  refused([](auto& c) { c.wire = ASYNCMESH_WIRE_INT4 + 1; });
  refused([](auto& c) { c.fraction = 0; });
  refused([](auto& c) { c.granularity = 0; });
  CHECK_OK(asyncmesh_averager_create(rank.mesh, region, &config, &averager));
  asyncmesh_averager_t* twin = nullptr;
  EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, &config, &twin), ASYNCMESH_INVALID_STATE);
  return averager;
}

void use_averager(asyncmesh_averager_t* averager, const Regions& regions) {
  expect_in_rule("averager_call", asyncmesh_averager_call_t ASYNCMESH_AVERAGER_CALL_INIT,
                 [&](const asyncmesh_averager_call_t* given) {
                   return asyncmesh_averager_call(averager, given, nullptr);
                 });
  asyncmesh_averager_call_t mirrored = ASYNCMESH_AVERAGER_CALL_INIT;
  mirrored.mirror = regions.wrong;
  EXPECT_EQ(asyncmesh_averager_call(averager, &mirrored, nullptr), ASYNCMESH_INVALID_ARGUMENT);
  asyncmesh_averager_result_t result = {};
  EXPECT_EQ(asyncmesh_averager_call(averager, nullptr, &result), ASYNCMESH_INVALID_ARGUMENT);
  expect_out_rule<asyncmesh_averager_info_t>(
      "averager_query", [&](auto* info) { return asyncmesh_averager_query(averager, info); });
  asyncmesh_region_t* const region = regions.region;
  EXPECT_NULL(asyncmesh_averager_mean(averager, nullptr, region, nullptr));
  EXPECT_NULL(asyncmesh_averager_mean(averager, region, nullptr, nullptr));
  EXPECT_EQ(asyncmesh_averager_mean(averager, region, regions.wrong, nullptr),
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
}

TEST(Contract, Averager) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    const Regions regions(rank);
    asyncmesh_averager_t* const averager = create_averager(rank, regions.region);
    use_averager(averager, regions);
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    rank.leave();
    asyncmesh_averager_destroy(averager);
  });
}

asyncmesh_port_t* open_mailbox(const Rank& rank) {
  asyncmesh_port_t* port = nullptr;
  asyncmesh_port_config_t config = ASYNCMESH_PORT_CONFIG_INIT;
  config.kind = ASYNCMESH_PORT_MAILBOX;
  config.payload_bytes = 100;
  EXPECT_NULL(asyncmesh_port_open(rank.mesh, nullptr, &port));
  EXPECT_NULL(asyncmesh_port_open(rank.mesh, &config, nullptr));
  expect_in_rule("port_open", config, [&](const asyncmesh_port_config_t* given) {
    asyncmesh_port_t* made = nullptr;
    const asyncmesh_status_t status = asyncmesh_port_open(rank.mesh, given, &made);
    asyncmesh_port_close(made);
    return status;
  });
  const auto refused = [&](auto change) {
    asyncmesh_port_config_t bad = config;
    change(bad);
    EXPECT_EQ(asyncmesh_port_open(rank.mesh, &bad, &port), ASYNCMESH_INVALID_ARGUMENT);
  };
  refused([](auto& c) { c.kind = 3; });
  refused([](auto& c) { c.slots = 3; });
  refused([](auto& c) { c.slots = 1u << 20; });
  refused([](auto& c) { c.payload_bytes = 0; });
  refused([](auto& c) { c.payload_bytes = UINT32_MAX; });
  refused([](auto& c) { c.max_untaken = 9; });
  refused([&](auto& c) {
    c.kind = ASYNCMESH_PORT_CHANNEL_IN;
    c.peer = rank.rank;
  });
  config.tag = 1;  // the other rank may still be in the loop above
  CHECK_OK(asyncmesh_port_open(rank.mesh, &config, &port));
  return port;
}

void use_mailbox(asyncmesh_port_t* port) {
  EXPECT_NULL(asyncmesh_port_send(port, nullptr));
  expect_in_rule("port_send", asyncmesh_send_t ASYNCMESH_SEND_INIT,
                 [&](const asyncmesh_send_t* given) { return asyncmesh_port_send(port, given); });
  const auto refused = [&](auto change, asyncmesh_status_t expected) {
    asyncmesh_send_t bad = ASYNCMESH_SEND_INIT;
    change(bad);
    EXPECT_EQ(asyncmesh_port_send(port, &bad), expected);
  };
  refused([](auto& s) { s.kind = 0; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& s) { s.bytes = 1; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& s) { s.dimensions = 5; }, ASYNCMESH_INVALID_ARGUMENT);
  refused([](auto& s) { s.dtype = 77; }, ASYNCMESH_INVALID_ARGUMENT);
  const float value = 0;
  refused(
      [&](auto& s) {
        s.data = &value;
        s.bytes = UINT64_MAX;
      },
      ASYNCMESH_TOO_LARGE);
  expect_out_rule<asyncmesh_message_t>("port_recv", [&](asyncmesh_message_t* message) {
    return asyncmesh_port_recv(port, 0, 20 * kSecond, message);
  });
  EXPECT_EQ(asyncmesh_port_release(port, 12345), ASYNCMESH_INVALID_ARGUMENT);
}

TEST(Contract, Port) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    asyncmesh_port_t* const port = open_mailbox(rank);
    use_mailbox(port);
    rank.leave();
    asyncmesh_port_close(port);
  });
}

}  // namespace
}  // namespace asyncmesh_test
