// The launches that the host prepares for a subset or a table.
#include "kernels/cuda/subset_launch.h"

#include <gtest/gtest.h>

#include "tests/kernels/random_table.h"

namespace asyncmesh::kernels {
namespace {

ParameterTable view_of(const RandomTable& table) { return {table.views(), table.size()}; }

std::vector<uint64_t> many_counts() {
  std::vector<uint64_t> counts = awkward_counts();
  for (uint64_t i = 0; i < 700; ++i) counts.push_back(1 + i * 61 % 200);
  return counts;
}

class SubsetLaunchesOf : public testing::TestWithParam<uint32_t> {};

TEST_P(SubsetLaunchesOf, EveryValueIsFoundByOneLaunchOnly) {
  RandomTable table(many_counts(), GetParam(), 21);
  const Subset subset = table.subset(19, 2, 0);
  const std::vector<Element> elements = table.elements_of(subset);
  std::vector<int> found(elements.size(), 0);
  uint64_t end = 0;
  SubsetLaunches launches(view_of(table), subset, nullptr);
  while (launches.next()) {
    const SubsetLaunch& launch = launches.launch();
    end = launch.end_position;
    for (uint64_t i = launch.begin_position; i < launch.end_position; ++i) {
      const LaunchPlace place = launch.find(launch.table.tensors, launch.tails, i);
      if (place.data == nullptr) continue;
      ++found[i];
      ASSERT_EQ(place.element, elements[i].flat);
      ASSERT_EQ(place.offset, elements[i].index);
      ASSERT_EQ(place.block, elements[i].block);
      ASSERT_EQ(place.data, table.views()[elements[i].tensor].data);
    }
  }
  EXPECT_EQ(end, elements.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], 1) << i;
}

// Whether present or not: what follows within the run is where the first says.
TEST_P(SubsetLaunchesOf, RunsAreOfOnePiece) {
  RandomTable table(many_counts(), GetParam(), 22);
  SubsetLaunches launches(view_of(table), table.subset(20, 3, 1), nullptr);
  while (launches.next()) {
    const SubsetLaunch& launch = launches.launch();
    for (uint64_t i = launch.begin_position; i < launch.end_position;) {
      const LaunchPlace first = launch.find(launch.table.tensors, launch.tails, i);
      ASSERT_GE(first.run, 1U);
      ASSERT_LE(i + first.run, launch.end_position);
      for (uint64_t j = 1; j < first.run; ++j) {
        const LaunchPlace next = launch.find(launch.table.tensors, launch.tails, i + j);
        ASSERT_EQ(next.data, first.data);
        ASSERT_EQ(next.run, first.run - j);
        if (next.data == nullptr) continue;
        ASSERT_EQ(next.element, first.element + j);
      }
      i += first.run;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Granularity, SubsetLaunchesOf, testing::Values(1U, 3U, 64U, 150U));

TEST(SubsetLaunches, OneLaunchForATableThatFits) {
  RandomTable table(std::vector<uint64_t>(SubsetLaunch::kMaxTails, 65), 64, 1);
  SubsetLaunches launches(view_of(table), table.subset(1, 1, 0), nullptr);
  ASSERT_TRUE(launches.next());
  EXPECT_TRUE(launches.is_only_one());
  EXPECT_EQ(launches.launch().tail_count, SubsetLaunch::kMaxTails);
  EXPECT_FALSE(launches.next());
  EXPECT_FALSE(launches.next());
}

TEST(SubsetLaunches, RangesTimesTensorsBeyond) {
  RandomTable table(std::vector<uint64_t>(TableLaunch::kMaxTensors + 1, 65), 64, 1);
  SubsetLaunches launches(view_of(table), table.subset(1, 1, 0), nullptr);
  int count = 0;
  while (launches.next()) {
    ++count;
    EXPECT_FALSE(launches.is_only_one());
  }
  EXPECT_EQ(count, 6);  // ranges of 256, 256 and 1 short blocks
}

TEST(SubsetLaunches, NoneForAnEmptySubset) {  // an empty grid is an error on the device
  RandomTable table(awkward_counts(), 64, 1);
  SubsetLaunches launches(view_of(table), table.first_blocks(1, 0), nullptr);
  EXPECT_FALSE(launches.next());
}

TEST(TableLaunches, EveryTensorOnceAndEmptyOnesNever) {
  RandomTable table(many_counts(), 64, 21);
  TableLaunches launches(view_of(table), nullptr);
  uint64_t elements = 0;
  int count = 0;
  for (; launches.next(); ++count) {
    const TableLaunch& launch = launches.launch();
    EXPECT_EQ(launch.begin_element, elements);
    for (uint32_t i = 0; i < launch.size; ++i) {
      EXPECT_EQ(launch.tensors[i].first_element, elements);
      ASSERT_NE(launch.tensors[i].count, 0U);
      elements += launch.tensors[i].count;
    }
    EXPECT_EQ(launch.end_element, elements);
  }
  EXPECT_EQ(elements, table.elements());
  EXPECT_EQ(count, 2);
  EXPECT_FALSE(fits_one_launch(view_of(table)));
}

}  // namespace
}  // namespace asyncmesh::kernels
