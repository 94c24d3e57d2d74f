#include "averaging/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "averaging/geometry.h"
#include "base/random.h"
#include "support/tensors.h"

namespace asyncmesh {
namespace {

using kernels::TensorView;

using test::Tensors;

struct Table {
  explicit Table(const std::vector<uint64_t>& counts)
      : data(std::accumulate(counts.begin(), counts.end(), uint64_t{0})),
        tensors(test::tensors_in(data.data(), counts)) {}
  std::vector<float> data;
  Tensors tensors;
};

Partition make(const AveragerConfig& config, const Table& table) {
  Result<Partition> partition = Partition::create(config, table.tensors);
  EXPECT_TRUE(partition.ok()) << partition.status().text();
  return partition.value();
}

std::vector<uint32_t> parts_of(const Partition& partition, uint64_t cycle) {
  std::vector<uint32_t> parts(partition.elements());
  partition.part_of_elements(cycle, parts.data());
  return parts;
}

AveragerConfig config_of(double fraction, uint32_t granularity) {
  AveragerConfig config;
  config.fraction = fraction;
  config.granularity = granularity;
  config.seed = 1337;
  return config;
}

// O-1.
TEST(Partition, HasCeilOfOneOverTheFractionParts) {
  EXPECT_EQ(asyncmesh::parts_of(0.05, 1000), 20U);
  EXPECT_EQ(asyncmesh::parts_of(0.3, 1000), 4U);
  EXPECT_EQ(asyncmesh::parts_of(0.4, 1000), 3U);
  EXPECT_EQ(asyncmesh::parts_of(1.0, 1000), 1U);
  EXPECT_EQ(asyncmesh::parts_of(0.05, 7), 7U);
  EXPECT_EQ(asyncmesh::parts_of(1e-12, 1ULL << 39), UINT32_MAX);
}

TEST(Partition, GainsNoPartFromTheRoundingOfItsFraction) {
  for (uint32_t parts = 1; parts <= 2000; ++parts) {
    const double exact = 1.0 / parts;
    EXPECT_EQ(asyncmesh::parts_of(exact, 1U << 20), parts);
    EXPECT_EQ(asyncmesh::parts_of(static_cast<double>(static_cast<float>(exact)), 1U << 20), parts);
  }
}

TEST(Partition, PartsAreDisjointCoverAllAndDifferByAtMostOneElement) {
  const Table table({1003});
  const Partition partition = make(config_of(0.05, 1), table);
  std::vector<uint64_t> sizes(20, 0);
  for (const uint32_t part : parts_of(partition, 3)) ++sizes.at(part);
  for (uint64_t u = 0; u < 20; ++u) EXPECT_EQ(sizes[u], (1003 - u + 19) / 20);
}

TEST(Partition, DrawsANewPermutationEveryCycle) {
  const Table table({1000});
  const Partition partition = make(config_of(0.05, 1), table);
  EXPECT_NE(parts_of(partition, 0), parts_of(partition, 1));
  EXPECT_EQ(partition.subset(19).key, partition.subset(0).key);
  EXPECT_NE(partition.subset(20).key, partition.subset(0).key);
  EXPECT_EQ(partition.subset(45).part, 5U);
}

TEST(Partition, FixedKeepsOnePermutation) {
  const Table table({1000});
  AveragerConfig config = config_of(0.05, 1);
  config.redraw = Redraw::kFixed;
  const Partition partition = make(config, table);
  EXPECT_EQ(parts_of(partition, 0), parts_of(partition, 7));
}

TEST(Partition, FixedWithSeedZeroIsTheIdentity) {
  const Table table({10});
  AveragerConfig config = config_of(0.5, 1);
  config.redraw = Redraw::kFixed;
  config.seed = 0;
  EXPECT_EQ(parts_of(make(config, table), 0),
            (std::vector<uint32_t>{0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(Partition, DependsOnSeedAndGroupOnly) {
  const Table one({500, 500});
  const Table two({500, 500});
  AveragerConfig config = config_of(0.1, 1);
  EXPECT_EQ(parts_of(make(config, one), 4), parts_of(make(config, two), 4));
  AveragerConfig other = config;
  other.seed = 1;
  EXPECT_NE(parts_of(make(config, one), 4), parts_of(make(other, one), 4));
  other = config;
  other.group_key = 1;
  EXPECT_NE(parts_of(make(config, one), 4), parts_of(make(other, one), 4));
}

TEST(Partition, BlocksAreNumberedOverTheTableAndNeverCrossTensors) {
  const Table table({130, 1, 64, 0, 65});
  const Partition partition = make(config_of(0.25, 64), table);
  EXPECT_EQ(partition.blocks(), 3U + 1 + 1 + 0 + 2);
  EXPECT_EQ(partition.tensors()[1].first_block, 3U);
  EXPECT_EQ(partition.tensors()[4].first_block, 5U);
  EXPECT_EQ(partition.parts(), 4U);
  const std::vector<uint32_t> parts = parts_of(partition, 0);
  const kernels::Subset subset = partition.subset(0);
  const uint64_t last = kernels::permute(subset.key, 7, 6) % 4;
  EXPECT_EQ(parts.back(), last);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(parts[i], parts[0]);
}

TEST(Partition, CountsTheElementsOfASubset) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CounterRandom random(seed);
    std::vector<uint64_t> counts(1 + random.below(6));
    for (uint64_t& count : counts) count = random.below(300);
    counts[0] += 1;
    const Table table(counts);
    AveragerConfig config =
        config_of(0.02 + random.uniform() * 0.98, static_cast<uint32_t>(1 + random.below(100)));
    config.seed = seed;
    const Partition partition = make(config, table);
    uint64_t total = 0;
    for (uint64_t round = 0; round < partition.parts(); ++round) {
      const kernels::Subset subset = partition.subset(round);
      const uint64_t elements = partition.elements_of(subset);
      ASSERT_EQ(elements, kernels::cpu().subset_elements(partition.table(), subset));
      ASSERT_LE(elements, partition.max_elements());
      total += elements;
    }
    ASSERT_EQ(total, partition.elements());
  }
}

TEST(Partition, RandomRoundsTakeWholeBlocksAndCountThem) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CounterRandom random(seed);
    const Table table({random.below(300), 1 + random.below(200), random.below(90), 7});
    AveragerConfig config =
        config_of(0.02 + random.uniform() * 0.98, static_cast<uint32_t>(1 + random.below(80)));
    config.selection = Selection::kRandom;
    config.seed = seed;
    const Partition partition = make(config, table);
    ASSERT_EQ(partition.parts(), 1U);
    for (uint64_t round = 0; round < 10; ++round) {
      const kernels::Subset subset = partition.subset(round);
      const uint64_t elements = partition.elements_of(subset);
      const std::vector<uint32_t> parts = parts_of(partition, round);
      ASSERT_EQ(elements, std::count(parts.begin(), parts.end(), 0U));
      ASSERT_EQ(table.data.size() - elements,
                std::count(parts.begin(), parts.end(), Partition::kNoPart));
      ASSERT_EQ(elements, kernels::cpu().subset_elements(partition.table(), subset));
      ASSERT_LE(elements, partition.max_elements());
    }
  }
}

TEST(Partition, RandomRoundsAreFreshAndTheSameOnAllMembers) {
  const Table one({1000});
  const Table two({1000});
  AveragerConfig config = config_of(0.05, 1);
  config.selection = Selection::kRandom;
  config.redraw = Redraw::kFixed;  // has no meaning here
  config.seed = 0;
  const Partition partition = make(config, one);
  EXPECT_EQ(parts_of(partition, 4), parts_of(make(config, two), 4));
  EXPECT_NE(parts_of(partition, 4), parts_of(partition, 5));
  EXPECT_NE(partition.subset(0).key, 0U);
  config.group_key = 1;
  EXPECT_NE(parts_of(partition, 4), parts_of(make(config, two), 4));
}

TEST(Partition, RandomRoundsOfFractionOneTakeEverything) {
  const Table table({100, 33});
  AveragerConfig config = config_of(1.0, 16);
  config.selection = Selection::kRandom;
  const Partition partition = make(config, table);
  EXPECT_EQ(partition.max_elements(), 133U);
  EXPECT_EQ(partition.elements_of(partition.subset(3)), 133U);
}

// Mean 1,000 blocks, deviation 31: room for 8 deviations and a few blocks, not for the table.
TEST(Partition, RandomRoundsHaveRoomForTheLargestSubset) {
  const Table table({20'000});
  AveragerConfig config = config_of(0.05, 1);
  config.selection = Selection::kRandom;
  EXPECT_EQ(make(config, table).max_elements(), 1000U + 246 + 16);
}

TEST(Partition, RefusesWhatIsNoTable) {
  const Table table({10});
  const auto code = [](const AveragerConfig& config, const std::vector<TensorView>& tensors) {
    return Partition::create(config, Tensors{tensors}).code();
  };
  EXPECT_EQ(code(config_of(0.0, 1), table.tensors.views), Code::kInvalidArgument);
  EXPECT_EQ(code(config_of(1.1, 1), table.tensors.views), Code::kInvalidArgument);
  EXPECT_EQ(code(config_of(0.5, 0), table.tensors.views), Code::kInvalidArgument);
  EXPECT_EQ(code(config_of(0.5, 1), {}), Code::kInvalidArgument);
  EXPECT_EQ(code(config_of(0.5, 1), {{.data = nullptr, .count = 3}}), Code::kInvalidArgument);
  EXPECT_EQ(code(config_of(0.5, 1), {{.data = table.tensors.views[0].data, .count = 1ULL << 41}}),
            Code::kInvalidArgument);
}

TEST(Partition, RebindsToTensorsOfTheSameCountsOnly) {
  Table table({10, 20});
  Table moved({10, 20});
  Table other({20, 10});
  Partition partition = make(config_of(0.5, 4), table);
  EXPECT_TRUE(partition.rebind(moved.tensors).ok());
  EXPECT_EQ(partition.tensors()[1].data, moved.tensors.views[1].data);
  EXPECT_EQ(partition.tensors()[1].first_block, 3U);
  EXPECT_EQ(partition.rebind(other.tensors).code(), Code::kInvalidArgument);
  const Tensors halves{moved.tensors.views, kernels::Encoding::kFloat16};
  EXPECT_EQ(partition.rebind(halves).code(), Code::kInvalidArgument);
  EXPECT_EQ(partition.tensors()[1].data, moved.tensors.views[1].data);
}

TEST(Geometry, CutsARoundIntoPiecesOfAtMost256KiB) {
  const Table table({4'000'000});
  AveragerConfig config = config_of(0.05, 64);
  config.window = 10;
  const AveragerGeometry geometry = averager_geometry(config, table.tensors).value();
  EXPECT_EQ(geometry.pieces, 4U);  // 200,000 values of 4 bytes
  EXPECT_EQ(geometry.rounds.payload_bytes, 200'000U);
  EXPECT_EQ(geometry.rounds.slots, 128U);  // 22 rounds
  EXPECT_LE(geometry.means.payload_bytes, kMaxPieceBytes);
  EXPECT_EQ(geometry.means.slots, 8U);
}

TEST(Geometry, IsNoLargerThanATinyTableNeeds) {
  const Table table({100});
  const AveragerGeometry geometry = averager_geometry(config_of(0.5, 1), table.tensors).value();
  EXPECT_EQ(geometry.pieces, 1U);
  EXPECT_EQ(geometry.rounds.payload_bytes, 256U);
  EXPECT_EQ(geometry.rounds.slots, 32U);
  EXPECT_EQ(geometry.means.payload_bytes, 448U);
  EXPECT_EQ(geometry.means.slots, 2U);
}

}  // namespace
}  // namespace asyncmesh
