#include "kernels/encoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {
namespace {

bool is_nan16(uint16_t word, Encoding encoding) {
  const uint32_t infinity = encoding == Encoding::kBfloat16 ? 0x7F80U : 0x7C00U;
  return (word & 0x7FFFU) > infinity;
}

std::vector<uint16_t> all_words() {
  std::vector<uint16_t> words(65536);
  for (uint32_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint16_t>(i);
  return words;
}

std::vector<float> decoded(const std::vector<uint16_t>& words, Encoding encoding) {
  std::vector<float> values(words.size());
  cpu().dequantise(reinterpret_cast<const std::byte*>(words.data()), words.size(), encoding,
                   values.data(), {});
  return values;
}

std::vector<uint16_t> encoded(const std::vector<float>& values, Encoding encoding) {
  std::vector<uint16_t> words(values.size());
  cpu().quantise(values.data(), values.size(), {encoding}, 0,
                 reinterpret_cast<std::byte*>(words.data()), {});
  return words;
}

class Encoding16 : public testing::TestWithParam<Encoding> {};

TEST_P(Encoding16, EveryWordSurvivesARoundTrip) {
  const auto words = all_words();
  const auto values = decoded(words, GetParam());
  const auto again = encoded(values, GetParam());
  for (size_t i = 0; i < words.size(); ++i) {
    if (is_nan16(words[i], GetParam())) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
      ASSERT_TRUE(is_nan16(again[i], GetParam())) << i;
      ASSERT_EQ(again[i] & 0x8000U, words[i] & 0x8000U) << i;
    } else {
      ASSERT_EQ(again[i], words[i]) << i;
    }
  }
}

// Between neighbours: below the midpoint down, above it up, on it to the even word.
TEST_P(Encoding16, RoundsToNearestTiesToEven) {
  const Encoding encoding = GetParam();
  const auto values = decoded(all_words(), encoding);
  const uint32_t infinity = encoding == Encoding::kBfloat16 ? 0x7F80U : 0x7C00U;
  std::vector<float> probes;
  std::vector<uint32_t> expected;
  for (uint32_t word = 0; word + 1 < infinity; ++word) {
    const auto middle = static_cast<float>(
        (static_cast<double>(values[word]) + static_cast<double>(values[word + 1])) / 2);
    for (const uint32_t sign : {0x0U, 0x8000U}) {
      const float s = sign != 0 ? -1.0F : 1.0F;
      probes.insert(probes.end(), {s * std::nextafter(middle, 0.0F), s * middle,
                                   s * std::nextafter(middle, INFINITY)});
      expected.insert(expected.end(),
                      {sign | word, sign | (word + (word & 1U)), sign | (word + 1)});
    }
  }
  const auto words = encoded(probes, encoding);
  for (size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], expected[i]) << probes[i];
}

TEST_P(Encoding16, OverflowsToInfinity) {
  const uint32_t infinity = GetParam() == Encoding::kBfloat16 ? 0x7F80U : 0x7C00U;
  const auto values = decoded({static_cast<uint16_t>(infinity - 1)}, GetParam());
  const double step = GetParam() == Encoding::kBfloat16 ? std::ldexp(1.0, 120) : 32.0;
  const auto edge = static_cast<float>(static_cast<double>(values[0]) + step / 2);
  const auto words = encoded({edge, std::nextafter(edge, 0.0F), -INFINITY, INFINITY}, GetParam());
  EXPECT_EQ(words[0], infinity);
  EXPECT_EQ(words[1], infinity - 1);
  EXPECT_EQ(words[2], infinity | 0x8000U);
  EXPECT_EQ(words[3], infinity);
}

INSTANTIATE_TEST_SUITE_P(Words, Encoding16,
                         testing::Values(Encoding::kBfloat16, Encoding::kFloat16));

TEST(Encoding, SmallBfloat16StepsAreExact) {
  EXPECT_EQ(from_bfloat16(to_bfloat16(1.0F)), 1.0F);
  EXPECT_EQ(to_bfloat16(1.0F + 1.0F / 256), 0x3F80U);      // tie, to even
  EXPECT_EQ(to_bfloat16(1.0F + 3.0F / 256), 0x3F82U);      // tie, to even
  EXPECT_EQ(to_bfloat16(float_of(0x7F800001U)), 0x7FC0U);  // the payload was below the cut
}

TEST(Encoding, SignallingFloat16NanIsQuieted) {
  EXPECT_EQ(bits_of(from_float16(0x7C01U)), 0x7FC02000U);
  EXPECT_EQ(to_float16(float_of(0xFF802000U)), 0xFE01U);
}

}  // namespace
}  // namespace asyncmesh::kernels
