#include "kernels/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {
namespace {

TEST(Permutation, IsABijectionOfEverySmallSize) {
  for (uint64_t blocks = 1; blocks <= 600; ++blocks) {
    const Permutation permutation(blocks * 7919, blocks);
    std::vector<bool> hit(blocks, false);
    for (uint64_t block = 0; block < blocks; ++block) {
      const uint64_t position = permutation.forward(block);
      ASSERT_LT(position, blocks);
      ASSERT_FALSE(hit[position]) << blocks;
      hit[position] = true;
    }
  }
}

TEST(Permutation, InverseUndoesForwardAtEverySize) {
  for (int bits = 1; bits < 40; ++bits) {
    for (const uint64_t blocks : {(1ULL << bits) - 1, 1ULL << bits, (1ULL << bits) + 1}) {
      const Permutation permutation(0xC0FFEE + static_cast<uint64_t>(bits), blocks);
      for (uint64_t i = 0; i < 200; ++i) {
        const uint64_t block = i * 0x9E3779B97F4A7C15ULL % blocks;
        const uint64_t position = permutation.forward(block);
        ASSERT_LT(position, blocks);
        ASSERT_EQ(permutation.inverse(position), block);
      }
    }
  }
}

TEST(Permutation, KeyZeroIsTheIdentity) {
  for (const uint64_t blocks : {uint64_t{1}, uint64_t{5}, kMaxBlocks - 1}) {
    EXPECT_EQ(permute(0, blocks, blocks - 1), blocks - 1);
    EXPECT_EQ(permute_inverse(0, blocks, blocks / 2), blocks / 2);
  }
}

TEST(Permutation, SameKeySameOrderOtherKeyOtherOrder) {
  uint64_t same = 0;
  for (uint64_t block = 0; block < 10000; ++block) {
    ASSERT_EQ(permute(42, 10000, block), permute(42, 10000, block));
    same += permute(42, 10000, block) == permute(43, 10000, block) ? 1 : 0;
  }
  EXPECT_LT(same, 12);  // 1 expected
}

// The values are part of the wire protocol: ranks of different builds must agree.
TEST(Permutation, GoldenValues) {
  EXPECT_EQ(permute(1, 1000, 0), 579U);
  EXPECT_EQ(permute(1, 1000, 999), 139U);
  EXPECT_EQ(permute(0x123456789ABCDEFULL, 1ULL << 33, 77), 3423642089U);
}

TEST(Permutation, EveryOrderOfThreeBlocksOccursEquallyOften) {
  constexpr uint64_t kKeys = 6000;
  std::vector<int> orders(27, 0);
  for (uint64_t key = 1; key <= kKeys; ++key) {
    ++orders[permute(key, 3, 0) * 9 + permute(key, 3, 1) * 3 + permute(key, 3, 2)];
  }
  orders.erase(std::remove(orders.begin(), orders.end(), 0), orders.end());
  EXPECT_EQ(orders.size(), 6U);
  for (const int count : orders) EXPECT_NEAR(count, 1000, 130);  // 4.5 sigma
}

// Chi-square of position buckets over blocks and keys, at sizes on both sides of a power of two.
TEST(Permutation, SpreadsEachBlockUniformlyOverKeys) {
  constexpr int kBuckets = 64;
  constexpr uint64_t kKeys = 20000;
  for (const uint64_t blocks : {64ULL, 1000ULL, 4097ULL, 1000003ULL}) {
    for (const uint64_t block : {uint64_t{0}, blocks / 3, blocks - 1}) {
      std::vector<double> count(kBuckets, 0);
      for (uint64_t key = 1; key <= kKeys; ++key) {
        ++count[permute(key, blocks, block) * kBuckets / blocks];
      }
      double chi_square = 0;
      for (int bucket = 0; bucket < kBuckets; ++bucket) {
        const auto edge = [&](int b) {
          return (static_cast<uint64_t>(b) * blocks + kBuckets - 1) / kBuckets;
        };
        const double expected = static_cast<double>(kKeys) *
                                static_cast<double>(edge(bucket + 1) - edge(bucket)) /
                                static_cast<double>(blocks);
        chi_square += (count[bucket] - expected) * (count[bucket] - expected) / expected;
      }
      EXPECT_NEAR(chi_square, kBuckets - 1, 5 * std::sqrt(2.0 * (kBuckets - 1))) << blocks;
    }
  }
}

TEST(Permutation, NeighboursFallApart) {
  constexpr uint64_t kBlocks = 100000, kParts = 20;
  const Permutation permutation(99, kBlocks);
  std::vector<double> pairs(kParts * kParts, 0);
  for (uint64_t block = 0; block + 1 < kBlocks; ++block) {
    ++pairs[permutation.forward(block) % kParts * kParts + permutation.forward(block + 1) % kParts];
  }
  double chi_square = 0;
  const double expected = static_cast<double>(kBlocks - 1) / (kParts * kParts);
  for (const double count : pairs) chi_square += (count - expected) * (count - expected) / expected;
  const double freedom = kParts * kParts - 1;
  EXPECT_NEAR(chi_square, freedom, 5 * std::sqrt(2 * freedom));
}

// Oracle O-1.
TEST(Permutation, PartsAreDisjointCoverAllAndDifferByOne) {
  struct Case {
    uint64_t blocks;
    uint32_t parts;
  };
  for (const Case& c : {Case{7, 7}, Case{1000, 20}, Case{1001, 4}, Case{999, 3}, Case{5, 1}}) {
    std::set<uint64_t> seen;
    for (uint32_t part = 0; part < c.parts; ++part) {
      uint64_t size = 0;
      for (uint64_t position = part; position < c.blocks; position += c.parts) {
        const uint64_t block = permute_inverse(5, c.blocks, position);
        EXPECT_EQ(permute(5, c.blocks, block) % c.parts, part);
        EXPECT_TRUE(seen.insert(block).second);
        ++size;
      }
      EXPECT_EQ(size, (c.blocks - part + c.parts - 1) / c.parts);
    }
    EXPECT_EQ(seen.size(), c.blocks);
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
