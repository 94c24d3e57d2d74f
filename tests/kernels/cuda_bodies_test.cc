// The CUDA kernels without CUDA: the launches that the host prepares, and what each thread does,
// run in plain loops and compared bitwise with the CPU kernels. The thread mapping in the .cu files
// and the device's own arithmetic are not covered.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/subset_launch.h"
#include "tests/kernels/random_table.h"

namespace asyncmesh::kernels {
namespace {

constexpr uint32_t kLanes = 5;  // any number will do

template <typename Body>
uint32_t run(SubsetLaunches launches, Body body) {
  uint32_t count = 0;
  for (; launches.next(); ++count) {
    const SubsetLaunch& launch = launches.launch();
    for (uint64_t index = launch.begin_index; index < launch.end_index; ++index) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) body(launch, index, lane);
    }
  }
  return count;
}

// More tensors and more short blocks than one launch holds.
std::vector<uint64_t> many_counts() {
  std::vector<uint64_t> counts = awkward_counts();
  for (uint64_t i = 0; i < 700; ++i) counts.push_back(1 + i * 61 % 200);
  return counts;
}

class CudaBodies : public testing::TestWithParam<uint32_t> {
 protected:
  RandomTable table_{many_counts(), GetParam(), 21};
  RandomTable mirror_{many_counts(), GetParam(), 22};
};

TEST_P(CudaBodies, PackLikeTheCpu) {
  for (const uint32_t parts : {1U, 4U}) {
    for (const Encoding encoding : {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16}) {
      const Subset subset = table_.subset(17, parts, parts - 1);
      const uint64_t count = cpu().subset_elements(table_.views(), table_.size(), subset);
      std::vector<float> expected(count), snapshot(count, -1.0F);
      std::vector<std::byte> expected_bytes(encoded_bytes(encoding, count)),
          bytes(expected_bytes.size());
      cpu().pack(table_.views(), table_.size(), subset, encoding, expected.data(),
                 expected_bytes.data(), nullptr);
      const device::PackOutputs out = {encoding, snapshot.data(), bytes.data()};
      run(SubsetLaunches(table_.views(), table_.size(), subset, nullptr),
          [&](const SubsetLaunch& launch, uint64_t index, uint32_t lane) {
            device::pack(launch, out, index, lane, kLanes);
          });
      EXPECT_EQ(snapshot, expected);
      EXPECT_EQ(bytes, expected_bytes);
    }
  }
}

TEST_P(CudaBodies, ApplyLikeTheCpu) {
  for (const Rule rule : {Rule::kAverage, Rule::kDelta, Rule::kEma}) {
    for (const Encoding encoding : {Encoding::kFloat32, Encoding::kBfloat16}) {
      const Subset subset = table_.subset(18, 3, 1);
      const uint64_t count = cpu().subset_elements(table_.views(), table_.size(), subset);
      const auto snapshot = table_.random_values(count), mean = table_.random_values(count);
      std::vector<std::byte> own(encoded_bytes(encoding, count));
      cpu().encode(snapshot.data(), count, encoding, own.data(), nullptr);
      std::vector<float> ema = table_.random_values(table_.elements()), cpu_ema = ema;
      std::vector<uint64_t> visited(table_.blocks() / 64 + 1, 0xF0F0F0F0F0F0F0F0ULL);
      RandomTable cpu_table(many_counts(), GetParam(), 23),
          cpu_mirror(many_counts(), GetParam(), 24);
      RandomTable table(many_counts(), GetParam(), 23), mirror(many_counts(), GetParam(), 24);
      ApplyArgs args;
      args.rule = rule;
      args.momentum = 0.8F;
      args.lossless = lossless(encoding);
      const float gain = 1.0F - args.momentum;
      const device::ApplyInputs in = {rule,
                                      encoding,
                                      {0, 1.0F, args.scale},
                                      {args.momentum, gain, args.scale},
                                      snapshot.data(),
                                      mean.data(),
                                      args.lossless ? nullptr : own.data(),
                                      ema.data(),
                                      visited.data()};
      run(SubsetLaunches(table.views(), table.size(), subset, mirror.views()),
          [&](const SubsetLaunch& launch, uint64_t index, uint32_t lane) {
            device::apply(launch, in, index, lane, kLanes);
          });
      cpu().apply(cpu_table.views(), cpu_table.size(), subset, args, snapshot.data(), mean.data(),
                  own.data(), encoding, cpu_ema.data(), visited.data(), cpu_mirror.views(),
                  nullptr);
      EXPECT_EQ(table.storage(), cpu_table.storage());
      EXPECT_EQ(mirror.storage(), cpu_mirror.storage());
      EXPECT_EQ(ema, cpu_ema);
    }
  }
}

TEST_P(CudaBodies, EveryBlockIsFoundByOneLaunchOnly) {
  const Subset subset = table_.subset(19, 2, 0);
  std::vector<int> found(table_.blocks(), 0);
  run(SubsetLaunches(table_.views(), table_.size(), subset, nullptr),
      [&](const SubsetLaunch& launch, uint64_t index, uint32_t lane) {
        LaunchPlace place;
        if (lane == 0 && launch.locate(index, place)) ++found[place.block];
      });
  for (uint64_t block = 0; block < table_.blocks(); ++block) {
    ASSERT_EQ(found[block], permute(19, table_.blocks(), block) % 2 == 0 ? 1 : 0);
  }
}

TEST_P(CudaBodies, PackNoMoreBlocksThanTheLimit) {
  for (const uint64_t limit : {uint64_t{0}, uint64_t{1}, table_.blocks() / 3, table_.blocks()}) {
    const Subset subset = table_.first_blocks(20 + limit, limit);
    const uint64_t count = cpu().subset_elements(table_.views(), table_.size(), subset);
    std::vector<float> expected(count), snapshot(count, -1.0F);
    cpu().pack(table_.views(), table_.size(), subset, Encoding::kFloat32, expected.data(), nullptr,
               nullptr);
    const device::PackOutputs out = {Encoding::kFloat32, snapshot.data(), nullptr};
    const uint32_t launches = run(SubsetLaunches(table_.views(), table_.size(), subset, nullptr),
                                  [&](const SubsetLaunch& launch, uint64_t index, uint32_t lane) {
                                    device::pack(launch, out, index, lane, kLanes);
                                  });
    EXPECT_EQ(snapshot, expected);
    EXPECT_EQ(launches == 0, limit == 0);  // an empty grid is an error on the device
  }
}

INSTANTIATE_TEST_SUITE_P(Granularity, CudaBodies, testing::Values(1U, 64U, 150U));

TEST(SubsetLaunches, OneLaunchForATableThatFits) {
  RandomTable table(std::vector<uint64_t>(SubsetLaunch::kMaxTensors, 65), 64, 1);
  SubsetLaunches launches(table.views(), table.size(), table.subset(1, 1, 0), nullptr);
  ASSERT_TRUE(launches.next());
  EXPECT_EQ(launches.launch().tail_count, SubsetLaunch::kMaxTails);
  EXPECT_FALSE(launches.next());
  EXPECT_FALSE(launches.next());
}

TEST(SubsetLaunches, RangesTimesTensorsBeyond) {
  RandomTable table(std::vector<uint64_t>(SubsetLaunch::kMaxTensors + 1, 65), 64, 1);
  EXPECT_EQ(run(SubsetLaunches(table.views(), table.size(), table.subset(1, 1, 0), nullptr),
                [](const SubsetLaunch&, uint64_t, uint32_t) {}),
            4U);
}

TEST(CudaAverage, MeanLikeTheCpu) {
  constexpr uint64_t kCount = 1000;
  RandomTable source({1}, 1, 30);
  for (const uint64_t left_out : {0ULL, 0b0100ULL, 0b1101ULL}) {
    std::vector<std::vector<float>> values;
    device::AverageArgs args = {};
    args.members = 4;
    args.encoding = Encoding::kFloat32;
    args.count = kCount;
    std::vector<float> mean(kCount, -1.0F), expected(kCount, -1.0F);
    args.mean = mean.data();
    for (uint32_t r = 0; r < 4; ++r) {
      values.push_back(source.random_values(kCount));
      if ((left_out >> r & 1) != 0) values[r][5] = std::numeric_limits<float>::infinity();
      args.values[r] = reinterpret_cast<const std::byte*>(values[r].data());
      args.weights[r] = static_cast<float>(r) + 0.3F;
      EXPECT_EQ(device::finite(values[r][5]), (left_out >> r & 1) == 0);
    }
    uint64_t not_finite = 0;
    const uint32_t averaged = cpu().average(args.values, args.weights, 4, args.encoding, kCount,
                                            expected.data(), &not_finite, nullptr);
    EXPECT_EQ(not_finite, left_out);
    const device::AverageSum sum(args, left_out);
    EXPECT_EQ(sum.usable, averaged >= 2);
    for (uint64_t i = 0; sum.usable && i < kCount; ++i) device::average(args, sum, i);
    EXPECT_EQ(mean, expected);
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
