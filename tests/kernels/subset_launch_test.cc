// The launches that the host prepares for a subset.
#include "kernels/cuda/subset_launch.h"

#include <gtest/gtest.h>

#include "tests/kernels/random_table.h"

namespace asyncmesh::kernels {
namespace {

class SubsetLaunchesOf : public testing::TestWithParam<uint32_t> {};

TEST_P(SubsetLaunchesOf, EveryBlockIsFoundByOneLaunchOnly) {
  std::vector<uint64_t> counts = awkward_counts();
  for (uint64_t i = 0; i < 700; ++i) counts.push_back(1 + i * 61 % 200);
  RandomTable table(counts, GetParam(), 21);
  std::vector<int> found(table.blocks(), 0);
  SubsetLaunches launches({table.views(), table.size()}, table.subset(19, 2, 0), nullptr);
  while (launches.next()) {
    const SubsetLaunch& launch = launches.launch();
    for (uint64_t index = launch.begin_index; index < launch.end_index; ++index) {
      LaunchPlace place;
      if (launch.locate(index, place)) ++found[place.block];
    }
  }
  for (uint64_t block = 0; block < table.blocks(); ++block) {
    ASSERT_EQ(found[block], permute(19, table.blocks(), block) % 2 == 0 ? 1 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Granularity, SubsetLaunchesOf, testing::Values(1U, 64U, 150U));

TEST(SubsetLaunches, OneLaunchForATableThatFits) {
  RandomTable table(std::vector<uint64_t>(SubsetLaunch::kMaxTensors, 65), 64, 1);
  SubsetLaunches launches({table.views(), table.size()}, table.subset(1, 1, 0), nullptr);
  ASSERT_TRUE(launches.next());
  EXPECT_EQ(launches.launch().tail_count, SubsetLaunch::kMaxTails);
  EXPECT_FALSE(launches.next());
  EXPECT_FALSE(launches.next());
}

TEST(SubsetLaunches, RangesTimesTensorsBeyond) {
  RandomTable table(std::vector<uint64_t>(SubsetLaunch::kMaxTensors + 1, 65), 64, 1);
  SubsetLaunches launches({table.views(), table.size()}, table.subset(1, 1, 0), nullptr);
  int count = 0;
  while (launches.next()) ++count;
  EXPECT_EQ(count, 4);
}

TEST(SubsetLaunches, NoneForAnEmptySubset) {  // an empty grid is an error on the device
  RandomTable table(awkward_counts(), 64, 1);
  SubsetLaunches launches({table.views(), table.size()}, table.first_blocks(1, 0), nullptr);
  EXPECT_FALSE(launches.next());
}

}  // namespace
}  // namespace asyncmesh::kernels
