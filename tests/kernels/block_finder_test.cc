// Every block of tables of many shapes, against a walk over the tensors.
#include "kernels/cpu/block_finder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace asyncmesh::kernels {
namespace {

void check_all(const std::vector<uint64_t>& counts, uint32_t granularity) {
  std::vector<TensorView> tensors;
  std::vector<float> memory(counts.size());
  uint64_t blocks = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    tensors.push_back({&memory[i], counts[i], blocks});
    blocks += (counts[i] + granularity - 1) / granularity;
  }
  const ParameterTable table = {tensors.data(), static_cast<uint32_t>(tensors.size())};
  Subset subset;
  subset.blocks = blocks;
  subset.granularity = granularity;
  const BlockFinder finder(table, subset);
  uint64_t block = 0, element = 0;
  for (uint32_t t = 0; t < counts.size(); ++t) {
    for (uint64_t offset = 0; offset < counts[t]; offset += granularity, ++block) {
      const BlockPlace place = finder.find(block);
      ASSERT_EQ(place.tensor, t) << "block " << block;
      ASSERT_EQ(place.data, reinterpret_cast<std::byte*>(&memory[t]) + offset * sizeof(float));
      ASSERT_EQ(place.offset, offset);
      ASSERT_EQ(place.element, element + offset);
      ASSERT_EQ(place.count, std::min<uint64_t>(granularity, counts[t] - offset));
    }
    element += counts[t];
  }
}

TEST(BlockFinder, FindsEveryBlock) {
  check_all({1}, 64);
  check_all({0, 0, 5, 0}, 1);
  check_all({64 * 255, 64}, 64);
  check_all({64 * 256, 64, 0, 65}, 64);
  check_all({100000, 1000, 1000, 100000, 3, 50000}, 64);
}

TEST(BlockFinder, FindsBlocksBehindManyTensorsOfABucket) {
  std::vector<uint64_t> counts(300, 3);
  counts.push_back(5000000);  // a bucket holds all the others
  check_all(counts, 64);
  counts.insert(counts.begin(), 5000000);
  check_all(counts, 100);
}

TEST(BlockFinder, FindsBlocksOfMoreTensorsThanItHolds) {
  for (const size_t tensors : {511, 512, 513, 2000}) {
    std::vector<uint64_t> counts;
    for (size_t i = 0; i < tensors; ++i) counts.push_back(i * 37 % 700);
    check_all(counts, 64);
    check_all(counts, 1);
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
