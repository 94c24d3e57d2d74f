#include <gtest/gtest.h>

#include <cstring>

#include "kernels/encoding.h"
#include "kernels/kernels.h"
#include "tests/kernels/random_table.h"

namespace asyncmesh::kernels {
namespace {

constexpr float kUntouched = 12345.0F;

class Pack : public testing::TestWithParam<uint32_t> {};

TEST_P(Pack, GathersTheSubsetInOrder) {
  RandomTable table(awkward_counts(), GetParam(), 1);
  for (const uint64_t key : {0, 1, 77}) {
    for (const uint32_t parts : {1U, 3U, 20U}) {
      for (uint32_t part = 0; part < parts; part += 2) {
        const Subset subset = table.subset(key, parts, part);
        const auto expected = table.elements_of(subset);
        ASSERT_EQ(cpu().subset_elements(table.table(), subset), expected.size());
        std::vector<float> snapshot(expected.size() + 1, kUntouched);
        std::vector<float> encoded(expected.size() + 1, kUntouched);
        cpu().partition_pack(table.table(), subset, {}, snapshot.data(),
                             reinterpret_cast<std::byte*>(encoded.data()), {});
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(snapshot[i], table.at(expected[i])) << i;
        }
        EXPECT_EQ(snapshot.back(), kUntouched);
        EXPECT_EQ(memcmp(snapshot.data(), encoded.data(), snapshot.size() * sizeof(float)), 0);
      }
    }
  }
}

TEST_P(Pack, GathersNoMoreBlocksThanTheLimit) {
  RandomTable table(awkward_counts(), GetParam(), 5);
  const uint64_t blocks = table.blocks();
  for (const uint64_t limit : {uint64_t{0}, uint64_t{1}, blocks / 3, blocks - 1, blocks + 9}) {
    Subset subset = table.first_blocks(limit + 1, limit);
    for (const uint32_t parts : {1U, 3U}) {
      subset.parts = parts;
      const auto expected = table.elements_of(subset);
      ASSERT_EQ(cpu().subset_elements(table.table(), subset), expected.size());
      std::vector<float> snapshot(expected.size() + 1, kUntouched);
      cpu().partition_pack(table.table(), subset, {}, snapshot.data(), nullptr, {});
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(snapshot[i], table.at(expected[i]));
      EXPECT_EQ(snapshot.back(), kUntouched);
    }
  }
}

TEST_P(Pack, EncodesAtAnyAddress) {
  RandomTable table(awkward_counts(), GetParam(), 2);
  const Subset subset = table.subset(9, 7, 6);
  const auto expected = table.elements_of(subset);
  for (const Encoding encoding : {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16}) {
    const size_t bytes = encoded_bytes(encoding, expected.size());
    std::vector<std::byte> encoded(bytes + 2, std::byte{0xAB});
    cpu().partition_pack(table.table(), subset, {encoding}, nullptr, encoded.data() + 1, {});
    std::vector<float> decoded(expected.size());
    cpu().dequantise(encoded.data() + 1, expected.size(), encoding, decoded.data(), {});
    for (size_t i = 0; i < expected.size(); ++i) {
      const float value = table.at(expected[i]);
      const float rounded = encoding == Encoding::kFloat32    ? value
                            : encoding == Encoding::kBfloat16 ? from_bfloat16(to_bfloat16(value))
                                                              : from_float16(to_float16(value));
      ASSERT_EQ(decoded[i], rounded);
    }
    EXPECT_EQ(encoded.front(), std::byte{0xAB});
    EXPECT_EQ(encoded.back(), std::byte{0xAB});
  }
}

TEST_P(Pack, PartsTogetherHoldEveryElementOnce) {
  RandomTable table(awkward_counts(), GetParam(), 3);
  const uint32_t parts = 11;
  std::vector<int> seen(table.elements(), 0);
  uint64_t total = 0;
  for (uint32_t part = 0; part < parts; ++part) {
    const Subset subset = table.subset(31, parts, part);
    total += cpu().subset_elements(table.table(), subset);
    for (const Element& element : table.elements_of(subset)) ++seen[element.flat];
  }
  EXPECT_EQ(total, table.elements());
  for (const int count : seen) ASSERT_EQ(count, 1);
}

INSTANTIATE_TEST_SUITE_P(Granularity, Pack, testing::Values(1U, 7U, 64U, 100U, 100000U));

TEST(PackOfOneBlock, WorksForASingleElement) {
  RandomTable table({1}, 64, 4);
  float snapshot = 0;
  cpu().partition_pack(table.table(), table.subset(3, 1, 0), {}, &snapshot, nullptr, {});
  EXPECT_EQ(snapshot, table.views()[0].floats()[0]);
}

}  // namespace
}  // namespace asyncmesh::kernels
