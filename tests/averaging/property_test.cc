// Random settings against the equations in double precision.
#include <gtest/gtest.h>

#include <cmath>

#include "averaging/reference.h"
#include "averaging/replicas.h"
#include "averaging/stability.h"
#include "base/random.h"

namespace asyncmesh::test {
namespace {

using kernels::Rule;

struct Setting {
  AveragerConfig config;
  uint32_t replicas = 2;
  std::vector<uint64_t> tensors;
  uint32_t payload_bytes = 0;
  uint32_t calls = 0;
};

Setting draw(CounterRandom& random) {
  Setting setting;
  AveragerConfig& config = setting.config;
  config.mode = AveragingMode::kDeterministic;
  config.fraction = 0.05 + 0.95 * random.uniform() * random.uniform();
  config.granularity = static_cast<uint32_t>(random.below(2) == 0 ? 1 : 1 + random.below(20));
  config.rule = static_cast<Rule>(random.below(3));
  config.init = static_cast<EmaInit>(random.below(3));
  config.redraw = static_cast<Redraw>(random.below(2));
  config.window = static_cast<uint32_t>(random.below(13));
  config.seed = random.below(3);
  config.scale = random.below(3) == 0 ? random.uniform() : 1.0;
  config.momentum_first = 0.3 + 0.6 * random.uniform();
  config.momentum_last = 0.95;
  setting.replicas = static_cast<uint32_t>(2 + random.below(3));
  for (uint64_t i = 0; i <= random.below(5); ++i) setting.tensors.push_back(random.below(60));
  setting.tensors.push_back(1 + random.below(100));
  setting.payload_bytes =
      static_cast<uint32_t>(random.below(2) == 0 ? 0 : 16 + 4 * random.below(20));
  setting.calls = 60;
  if (random.below(3) == 0) config.selection = Selection::kRandom;
  return setting;
}

// False: the setting was refused as unstable.
bool follow(const Setting& setting, uint64_t seed) {
  Replicas replicas(setting.replicas, setting.config, setting.tensors,
                    {.payload_bytes = setting.payload_bytes, .quiet = true});
  if (!replicas.status().ok()) return false;
  const Averager& averager = replicas.averager(0);
  const uint64_t elements = replicas.elements();
  Reference reference(setting.config, setting.replicas, elements, averager.partition().parts(),
                      [&](uint64_t cycle) { return parts_of_elements(averager, cycle); });
  CounterRandom random(seed, 1000);
  double scale = 1;
  for (uint32_t call = 0; call < setting.calls; ++call) {
    std::vector<double> weights(setting.replicas);
    for (uint32_t r = 0; r < setting.replicas; ++r) {
      replicas.add(r, [&](uint64_t i) {
        const auto step = static_cast<float>(random.uniform() - 0.4);
        reference.weights(r)[i] += step;
        return step;
      });
      weights[r] = static_cast<double>(random.below(5)) / 4;
    }
    const double progress = call / double(setting.calls - 1);
    reference.call(progress, weights);
    const auto statuses = replicas.run_all([&](uint32_t r) {
      return replicas.averager(r).call(
          {.weight = static_cast<float>(weights[r]), .progress = progress}, nullptr);
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.text();
    for (uint32_t r = 0; r < setting.replicas; ++r) {
      for (uint64_t i = 0; i < elements; ++i) {
        const double expected = reference.weights(r)[i];
        scale = std::max(scale, std::abs(expected));
        EXPECT_NEAR(replicas.weights(r)[i], expected, 3e-5 * scale)
            << "seed " << seed << " call " << call << " replica " << r << " element " << i;
      }
    }
    if (testing::Test::HasFailure()) break;
  }
  return true;
}

TEST(Property, DeterministicRoundsFollowTheEquations) {
  uint32_t followed = 0;
  uint32_t random_followed = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CounterRandom random(seed);
    const Setting setting = draw(random);
    if (follow(setting, seed)) {
      ++followed;
      if (setting.config.selection == Selection::kRandom) ++random_followed;
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(followed, 90U);
  EXPECT_GT(random_followed, 25U);
}

}  // namespace
}  // namespace asyncmesh::test
