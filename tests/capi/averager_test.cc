// Averaging between ranks through the C API: the golden vectors, exact means, both modes.
#include <algorithm>
#include <array>

#include "capi/averager_runs.h"

namespace asyncmesh_test {
namespace {

// ---- Over every medium ------------------------------------------------------------------------

class Averagers : public testing::TestWithParam<Medium> {};
INSTANTIATE_TEST_SUITE_P(Media, Averagers, testing::ValuesIn(kMedia),
                         [](const auto& medium) { return medium.param.name; });

TEST_P(Averagers, DeterministicRunsAreBitwiseRepeatable) { expect_repeatable(GetParam(), {}); }

TEST_P(Averagers, MeanIsExactAndBroadcasts) {
  run_ranks(over(GetParam(), {.replicas = 3}), [](Rank& rank) {
    std::vector<float> in(200'000);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>((rank.rank + 1) * (i % 1000));
    std::vector<float> out(in.size(), -1.0F);
    asyncmesh_region_t* region = make_region(rank.context, {&in});
    asyncmesh_region_t* target = make_region(rank.context, {&out});
    asyncmesh_averager_t* averager = nullptr;
    CHECK_OK(asyncmesh_averager_create(rank.mesh, region, nullptr, &averager));
    CHECK_OK(asyncmesh_averager_mean(averager, region, target, nullptr));
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], static_cast<float>(2 * (i % 1000))) << i;
    asyncmesh_mean_t mean = ASYNCMESH_MEAN_INIT;
    mean.weight = rank.rank == 1 ? 1.0F : 0.0F;
    CHECK_OK(asyncmesh_averager_mean(averager, region, region, &mean));
    for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(in[i], static_cast<float>(2 * (i % 1000)));
    mean.weight = 0.0F;
    EXPECT_EQ(asyncmesh_averager_mean(averager, region, region, &mean), ASYNCMESH_INVALID_ARGUMENT);
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(target);
    asyncmesh_region_destroy(region);
  });
}

// Destroyed as soon as the last call returns: what the others still wait for must reach them.
TEST_P(Averagers, MayBeDestroyedAtOnce) {
  run_ranks(over(GetParam(), {.replicas = 3}), [](Rank& rank) {
    for (int round = 0; round < 30; ++round) {
      std::vector<float> values(5000, static_cast<float>(rank.rank + round));
      asyncmesh_region_t* region = make_region(rank.context, {&values});
      asyncmesh_averager_t* averager = nullptr;
      CHECK_OK(asyncmesh_averager_create(rank.mesh, region, nullptr, &averager));
      CHECK_OK(round % 2 == 0 ? asyncmesh_averager_finish(averager, 20 * kSecond)
                              : asyncmesh_averager_mean(averager, region, region, nullptr));
      asyncmesh_averager_destroy(averager);
      asyncmesh_region_destroy(region);
      for (const float value : values) ASSERT_EQ(value, static_cast<float>(1 + round));
    }
    rank.leave();
  });
}

TEST_P(Averagers, OpportunisticEndsInOneModel) {
  Results results;
  run_ranks(over(GetParam(), {.replicas = 2, .stages = 2}), [&results](Rank& rank) {
    std::vector<float> weights(3000, static_cast<float>(rank.rank));
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_t* averager = nullptr;
    CHECK_OK(asyncmesh_averager_create(rank.mesh, region, nullptr, &averager));
    for (int call = 0; call < 100 + 40 * static_cast<int>(rank.replica); ++call) {
      perturb(weights, rank.rank, call);
      asyncmesh_averager_result_t result = {};
      result.struct_size = sizeof result;
      CHECK_OK(asyncmesh_averager_call(averager, nullptr, &result));
      EXPECT_LE(result.open, 10u);
      EXPECT_EQ(result.wait_ns, 0u);
    }
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    EXPECT_EQ(asyncmesh_averager_call(averager, nullptr, nullptr), ASYNCMESH_INVALID_STATE);
    asyncmesh_averager_info_t info = {};
    info.struct_size = sizeof info;
    CHECK_OK(asyncmesh_averager_query(averager, &info));
    EXPECT_EQ(info.members, 2u);
    EXPECT_EQ(info.parts, 20u);
    EXPECT_EQ(info.elements, 3000u);
    EXPECT_GT(info.rounds_started, 0u);
    results.put(rank.rank, weights);
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
  EXPECT_EQ(results.of(0), results.of(2));
  EXPECT_EQ(results.of(1), results.of(3));
  EXPECT_NE(results.of(0), results.of(1));
}

// ---- Creation ---------------------------------------------------------------------------------

TEST(Averager, ADifferentSettingIsNamedOnBothSides) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<float> weights(1000);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.granularity = rank.rank == 0 ? 64 : 32;
    asyncmesh_averager_t* averager = nullptr;
    EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, &config, &averager), ASYNCMESH_MISMATCH);
    const std::string text = asyncmesh_last_error();
    EXPECT_NE(text.find("granularity is"), std::string::npos) << text;
    EXPECT_NE(text.find("rank " + std::to_string(1 - rank.rank)), std::string::npos) << text;
    EXPECT_EQ(averager, nullptr);
    // The same once more, and right.
    config.granularity = 64;
    averager = make_averager(rank, region, config);
    CHECK_OK(asyncmesh_averager_mean(averager, region, region, nullptr));
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
}

TEST(Averager, AnotherTableIsNamed) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<float> first(100);
    std::vector<float> second(rank.rank == 0 ? 10 : 11);
    asyncmesh_region_t* region = make_region(rank.context, {&first, &second});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.window = 3;
    asyncmesh_averager_t* averager = nullptr;
    EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, &config, &averager), ASYNCMESH_MISMATCH);
    EXPECT_NE(std::string(asyncmesh_last_error()).find("elements is"), std::string::npos)
        << asyncmesh_last_error();
    asyncmesh_region_destroy(region);
  });
}

TEST(Averager, AMissingMemberIsNamedAtTheTimeout) {
  run_ranks({.replicas = 2, .leave = false}, [](Rank& rank) {
    asyncmesh_port_config_t port_config = ASYNCMESH_PORT_CONFIG_INIT;
    port_config.kind = rank.rank == 0 ? ASYNCMESH_PORT_CHANNEL_OUT : ASYNCMESH_PORT_CHANNEL_IN;
    port_config.peer = 1 - rank.rank;
    port_config.payload_bytes = 64;
    asyncmesh_port_t* port = nullptr;
    CHECK_OK(asyncmesh_port_open(rank.mesh, &port_config, &port));
    if (rank.rank == 0) {
      std::vector<float> weights(1000);
      asyncmesh_region_t* region = make_region(rank.context, {&weights});
      asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
      config.create_timeout_ns = 100'000'000;
      asyncmesh_averager_t* averager = nullptr;
      EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, &config, &averager),
                ASYNCMESH_TIMEOUT);
      EXPECT_NE(std::string(asyncmesh_last_error()).find("rank 1"), std::string::npos);
      asyncmesh_region_destroy(region);
      asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
      CHECK_OK(asyncmesh_port_send(port, &send));
    } else {
      asyncmesh_message_t message = {};
      message.struct_size = sizeof message;
      CHECK_OK(asyncmesh_port_recv(port, 0, 20 * kSecond, &message));
    }
    rank.leave();
    asyncmesh_port_close(port);
  });
}

TEST(Averager, AnUnstableSettingIsRefusedWithTheRemedy) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<float> weights(100'000);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.window = 70;
    asyncmesh_averager_t* averager = nullptr;
    EXPECT_EQ(asyncmesh_averager_create(rank.mesh, region, &config, &averager),
              ASYNCMESH_INVALID_ARGUMENT);
    EXPECT_NE(std::string(asyncmesh_last_error()).find("momentum_first"), std::string::npos)
        << asyncmesh_last_error();
    asyncmesh_region_destroy(region);
  });
}

TEST(Averager, ALostMemberEndsTheCallAndIsNamed) {
  RankSetup setup{.replicas = 2, .leave = false};
  setup.peer_timeout = 2 * kSecond;
  run_ranks(setup, [](Rank& rank) {
    std::vector<float> weights(1000);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    config.window = 1;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    if (rank.rank == 0) {
      CHECK_OK(asyncmesh_averager_call(averager, nullptr, nullptr));
    } else {
      asyncmesh_status_t status = ASYNCMESH_OK;
      while (status == ASYNCMESH_OK) status = asyncmesh_averager_call(averager, nullptr, nullptr);
      EXPECT_TRUE(status == ASYNCMESH_PEER_LOST || status == ASYNCMESH_CANCELED)
          << asyncmesh_status_name(status);
      EXPECT_NE(std::string(asyncmesh_last_error()).find("rank 0"), std::string::npos)
          << asyncmesh_last_error();
    }
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
}

// ---- State, partition, moved tensors -----------------------------------------------------------

TEST(Averager, StateSurvivesAndPartitionCovers) {
  run_ranks({.replicas = 1}, [](Rank& rank) {
    std::vector<float> weights(1000);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.granularity = 10;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    std::vector<uint32_t> parts(1000);
    CHECK_OK(asyncmesh_averager_partition(averager, 0, parts.data(), parts.size()));
    EXPECT_EQ(*std::max_element(parts.begin(), parts.end()), 19u);
    EXPECT_EQ(asyncmesh_averager_partition(averager, 0, parts.data(), 999), ASYNCMESH_TOO_LARGE);
    uint64_t need = 0;
    EXPECT_EQ(asyncmesh_averager_save(averager, nullptr, 0, &need), ASYNCMESH_TOO_LARGE);
    std::vector<std::byte> state(need);
    CHECK_OK(asyncmesh_averager_save(averager, state.data(), state.size(), &need));
    CHECK_OK(asyncmesh_averager_load(averager, state.data(), state.size()));
    state.back() ^= std::byte{1};
    state.front() ^= std::byte{1};
    EXPECT_EQ(asyncmesh_averager_load(averager, state.data(), state.size()), ASYNCMESH_MISMATCH);
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
}

TEST(Averager, FollowsTensorsThatMoved) {
  run_ranks({.replicas = 2}, [](Rank& rank) {
    std::vector<float> before(100, 1.0F);
    std::vector<float> after(100, 2.0F + static_cast<float>(rank.rank));
    asyncmesh_region_t* region = make_region(rank.context, {&before});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    config.window = 0;
    config.fraction = 1.0;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    asyncmesh_tensor_t tensor = {};
    tensor.struct_size = sizeof tensor;
    tensor.data = after.data();
    tensor.count = after.size();
    tensor.id = 1;
    tensor.device = -1;
    CHECK_OK(asyncmesh_region_rebind(region, &tensor, 1));
    CHECK_OK(asyncmesh_averager_call(averager, nullptr, nullptr));
    for (const float value : after) EXPECT_EQ(value, 2.5F);
    for (const float value : before) EXPECT_EQ(value, 1.0F);
    tensor.count = 99;
    EXPECT_EQ(asyncmesh_region_rebind(region, &tensor, 1), ASYNCMESH_MISMATCH);
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
}

}  // namespace
}  // namespace asyncmesh_test
