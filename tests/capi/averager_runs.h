// Training-like runs of averagers through the C API, for tests.
#pragma once

#include <mutex>

#include "capi/ranks.h"

namespace asyncmesh_test {

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

inline void perturb(std::vector<float>& weights, uint32_t rank, int call) {
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] += 0.001F * static_cast<float>((i * 31 + rank * 17 + call * 7) % 101) - 0.05F;
}

struct Travel {
  asyncmesh_wire_t wire = ASYNCMESH_WIRE_FLOAT32;
  uint32_t rounding = ASYNCMESH_ROUNDING_NEAREST;
};

// A training-like run of two replicas; what replica 0 ends with.
inline std::vector<float> deterministic_run(const Medium& medium, const Travel& travel,
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

inline void expect_repeatable(const Medium& medium, const Travel& travel) {
  const std::vector<float> reference = deterministic_run(kMedia[0], travel);
  for (int repetition = 0; repetition < 2; ++repetition) {
    const std::vector<float> again = deterministic_run(medium, travel);
    ASSERT_EQ(again.size(), reference.size());
    EXPECT_EQ(std::memcmp(again.data(), reference.data(), again.size() * sizeof(float)), 0);
  }
}

}  // namespace asyncmesh_test
