#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "every_target.h"
#include "kernels/kernels.h"
#include "kernels/scaled.h"

namespace asyncmesh::kernels {
namespace {

constexpr Encoding kLossy[] = {Encoding::kBfloat16, Encoding::kFloat16, Encoding::kInt8,
                               Encoding::kInt4};

std::vector<float> through(const std::vector<float>& values, const Wire& wire, uint64_t first = 0) {
  std::vector<std::byte> encoded(encoded_bytes(wire.encoding, values.size()));
  cpu().quantise(values.data(), values.size(), wire, first, encoded.data(), {});
  std::vector<float> decoded(values.size());
  cpu().dequantise(encoded.data(), values.size(), wire.encoding, decoded.data(), {});
  return decoded;
}

TEST(RandomBits, GoldenValues) {
  EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFULL);  // SplitMix64's first number from seed 0
  std::vector<uint32_t> bits;
  for (const uint64_t number : {0ULL, 1ULL, 31ULL, 32ULL, 63ULL, 64ULL, 1ULL << 40}) {
    bits.push_back(random_bits(42, number));
  }
  EXPECT_EQ(bits, (std::vector<uint32_t>{19449, 43991, 34921, 29427, 313, 32418, 9319}));
}

// Each bit, and each pair of bits of values that share a word or are neighbours, is balanced:
// within five standard deviations of a fair coin.
TEST(RandomBits, AreBalancedAndUncorrelated) {
  constexpr uint64_t kNumbers = 1 << 16;
  for (const uint64_t distance : {0ULL, 1ULL, 32ULL, 64ULL, 1024ULL}) {
    for (uint32_t bit = 0; bit < 16; ++bit) {
      uint64_t ones = 0;
      for (uint64_t number = 0; number < kNumbers; ++number) {
        uint32_t word = random_bits(1, number);
        if (distance != 0) word ^= random_bits(1, number + distance);
        ones += (word >> bit) & 1U;
      }
      const double deviation =
          (static_cast<double>(ones) - kNumbers / 2.0) / std::sqrt(kNumbers / 4.0);
      EXPECT_LT(std::abs(deviation), 5.0) << distance << ' ' << bit;
    }
  }
}

TEST(RandomBits, SeedsDiffer) {
  uint64_t differing = 0;
  for (uint64_t number = 0; number < 4096; ++number) {
    differing +=
        static_cast<uint64_t>(std::popcount(random_bits(1, number) ^ random_bits(2, number)));
  }
  EXPECT_NEAR(static_cast<double>(differing), 4096 * 8.0, 5 * std::sqrt(4096 * 4.0));
}

// Over many numbers the mean is the value: errors below `step` have a deviation of at most half of
// it, and what 16 bits cannot express is half of step / 2^16.
TEST(Stochastic, IsUnbiased) {
  constexpr uint64_t kTimes = 1 << 14;
  for (const Encoding encoding : kLossy) {
    for (const float value : {0.3337F, -0.0123F, 1.00390F, -7e-6F, 3.1e-8F}) {
      // Groups of one value, the largest in each block fixing the scale of int8 and int4.
      std::vector<float> values(kTimes, value);
      for (uint64_t i = 0; i < kTimes; i += kScaled) values[i] = 1.5F;
      const auto decoded = through(values, {encoding, Rounding::kStochastic, 77});
      double sum = 0, low = INFINITY, high = -INFINITY;
      uint64_t count = 0;
      for (uint64_t i = 0; i < kTimes; ++i) {
        if (i % kScaled == 0) continue;
        const auto x = static_cast<double>(decoded[i]);
        sum += x;
        low = std::min(low, x);
        high = std::max(high, x);
        ++count;
      }
      const double step = scaled(encoding) ? 1.5 / code_limit(encoding)
                          : encoding == Encoding::kBfloat16
                              ? std::ldexp(1.0, std::ilogb(value) - 7)
                              : std::ldexp(1.0, std::max(std::ilogb(value), -14) - 10);
      const double error = sum / static_cast<double>(count) - static_cast<double>(value);
      const double bound = 5 * step / 2 / std::sqrt(static_cast<double>(count)) + step * 0x1p-16;
      EXPECT_LT(std::abs(error), bound) << value << ' ' << static_cast<int>(encoding);
      EXPECT_LE(high - low, step * (1 + 1e-6)) << "only the two neighbours";
    }
  }
}

TEST(Stochastic, DependsOnSeedAndNumberOnly) {
  std::mt19937_64 generator(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(4 * kGroup);
  for (float& value : values) value = normal(generator);
  on_every_target([&] {
    for (const Encoding encoding : kLossy) {
      const Wire wire = {encoding, Rounding::kStochastic, 123};
      const auto whole = through(values, wire, 8 * kGroup);
      for (uint64_t cut = kGroup; cut < values.size(); cut += kGroup) {
        const auto middle = values.begin() + static_cast<std::ptrdiff_t>(cut);
        auto parts = through({values.begin(), middle}, wire, 8 * kGroup);
        const auto rest = through({middle, values.end()}, wire, 8 * kGroup + cut);
        parts.insert(parts.end(), rest.begin(), rest.end());
        EXPECT_TRUE(same_bits(whole, parts));
      }
      EXPECT_FALSE(same_bits(whole, through(values, wire, 9 * kGroup)));
      EXPECT_FALSE(
          same_bits(whole, through(values, {encoding, Rounding::kStochastic, 124}, 8 * kGroup)));
    }
  });
}

TEST(Stochastic, NeverInfiniteFromFinite) {
  std::vector<float> values;
  for (const float edge :
       {65503.9F, 65504.0F, 65519.9F, 65520.0F, 1e30F, 0x1.FEp127F, 0x1.FEFFFEp127F, FLT_MAX}) {
    for (int i = 0; i < 200; ++i) values.push_back(i % 2 == 0 ? edge : -edge);
  }
  on_every_target([&] {
    for (const Encoding encoding : kLossy) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto decoded = through(values, {encoding, Rounding::kStochastic, seed});
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_TRUE(std::isfinite(decoded[i])) << values[i] << ' ' << static_cast<int>(encoding);
          if (decoded[i] != 0) {
            ASSERT_EQ(std::signbit(decoded[i]), std::signbit(values[i]));
          }
        }
      }
    }
  });
}

TEST(Stochastic, KeepsWhatIsExactAndWhatIsNotFinite) {
  for (const Encoding encoding : {Encoding::kBfloat16, Encoding::kFloat16}) {
    std::vector<float> exact;
    for (uint32_t word = 0; word < 65536; ++word) {
      const auto bits = static_cast<uint16_t>(word);
      exact.push_back(encoding == Encoding::kBfloat16 ? from_bfloat16(bits) : from_float16(bits));
    }
    on_every_target([&] {
      const auto decoded = through(exact, {encoding, Rounding::kStochastic, 6});
      for (size_t i = 0; i < exact.size(); ++i) {
        ASSERT_EQ(std::isnan(decoded[i]), std::isnan(exact[i])) << i;
        if (!std::isnan(exact[i])) {
          ASSERT_EQ(bits_of(decoded[i]), bits_of(exact[i])) << i;
        }
      }
    });
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
