// Averaging between ranks through the C API: the golden vectors, exact means, both modes.
#include <algorithm>
#include <array>
#include <mutex>

#include "capi/ranks.h"

namespace asyncmesh_test {
namespace {

// What every rank ended with.
class Results {
 public:
  void put(uint32_t rank, const std::vector<float>& values) {
    const std::scoped_lock lock(mutex_);
    if (values_.size() <= rank) values_.resize(rank + 1);
    values_[rank] = values;
  }
  const std::vector<float>& of(uint32_t rank) const { return values_.at(rank); }

 private:
  std::mutex mutex_;
  std::vector<std::vector<float>> values_;
};

// ---- Over every medium ------------------------------------------------------------------------

class Averagers : public testing::TestWithParam<Medium> {};
INSTANTIATE_TEST_SUITE_P(Media, Averagers, testing::ValuesIn(kMedia),
                         [](const auto& medium) { return medium.param.name; });

void perturb(std::vector<float>& weights, uint32_t rank, int call) {
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] += 0.001F * static_cast<float>((i * 31 + rank * 17 + call * 7) % 101) - 0.05F;
}

struct Travel {
  asyncmesh_wire_t wire = ASYNCMESH_WIRE_FLOAT32;
  uint32_t rounding = ASYNCMESH_ROUNDING_NEAREST;
};

// A training-like run of two replicas; what replica 0 ends with.
std::vector<float> deterministic_run(const Medium& medium, const Travel& travel,
                                     uint32_t kernel_threads = 0, size_t elements = 5000) {
  Results results;
  const RankSetup setup{.replicas = 2, .kernel_threads = kernel_threads};
  run_ranks(over(medium, setup), [&](Rank& rank) {
    std::vector<float> large(elements, static_cast<float>(rank.rank));
    std::vector<float> small(7);
    asyncmesh_region_t* region = make_region(rank.context, {&large, &small});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    config.window = 3;
    config.fraction = 0.25;
    config.seed = 99;
    config.wire = travel.wire;
    config.rounding = travel.rounding;
    asyncmesh_averager_t* averager = make_averager(rank, region, config);
    for (int call = 0; call < 60; ++call) {
      perturb(large, rank.rank, call);
      perturb(small, rank.rank, call);
      asyncmesh_averager_call_t args = ASYNCMESH_AVERAGER_CALL_INIT;
      args.progress = call / 60.0;
      asyncmesh_averager_result_t result = {};
      result.struct_size = sizeof result;
      CHECK_OK(asyncmesh_averager_call(averager, &args, &result));
      EXPECT_EQ(result.started, 1u);
      EXPECT_EQ(result.applied, call < 3 ? 0u : 1u);
    }
    std::vector<float> all = large;
    all.insert(all.end(), small.begin(), small.end());
    results.put(rank.rank, all);
    // Who leaves without this takes the rounds that others still wait for with it.
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
  return results.of(0);
}

void expect_repeatable(const Medium& medium, const Travel& travel) {
  const std::vector<float> reference = deterministic_run(kMedia[0], travel);
  for (int repetition = 0; repetition < 2; ++repetition) {
    const std::vector<float> again = deterministic_run(medium, travel);
    ASSERT_EQ(again.size(), reference.size());
    EXPECT_EQ(std::memcmp(again.data(), reference.data(), again.size() * sizeof(float)), 0);
  }
}

TEST_P(Averagers, DeterministicRunsAreBitwiseRepeatable) { expect_repeatable(GetParam(), {}); }

TEST_P(Averagers, InEightBitsRoundedStochasticallyToo) {
  expect_repeatable(GetParam(), {ASYNCMESH_WIRE_INT8, ASYNCMESH_ROUNDING_STOCHASTIC});
}

TEST_P(Averagers, InFourBitsToo) { expect_repeatable(GetParam(), {.wire = ASYNCMESH_WIRE_INT4}); }

TEST(Averager, EveryWireAndRoundingIsARunOfItsOwn) {
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

TEST(Averager, KernelThreadsChangeNoResult) {
  constexpr size_t kElements = 300'000;
  for (const asyncmesh_wire_t wire : {ASYNCMESH_WIRE_FLOAT32, ASYNCMESH_WIRE_INT8}) {
    const Travel travel{wire, ASYNCMESH_ROUNDING_STOCHASTIC};
    const std::vector<float> alone = deterministic_run(kMedia[0], travel, 1, kElements);
    EXPECT_EQ(deterministic_run(kMedia[0], travel, 2, kElements), alone);
    EXPECT_EQ(deterministic_run(kMedia[0], travel, 3, kElements), alone);
  }
}

TEST(Averager, ADifferentWireOrRoundingIsNamed) {
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

// ---- Storages ---------------------------------------------------------------------------------

TEST(Averager, RefreshesAMirrorInBfloat16AndRefusesOtherTables) {
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

TEST_P(Averagers, TablesWithoutMastersEndInOneModel) {
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

TEST(Averager, ADifferentDtypeIsNamed) {
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
