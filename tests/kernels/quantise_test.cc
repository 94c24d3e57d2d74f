#include "kernels/cpu/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "every_target.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/kernels.h"
#include "reference_quantise.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace asyncmesh::kernels {
namespace {

constexpr Encoding kEncodings[] = {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16,
                                   Encoding::kInt8, Encoding::kInt4};
constexpr Encoding kScaledOnes[] = {Encoding::kInt8, Encoding::kInt4};
constexpr Rounding kRoundings[] = {Rounding::kNearest, Rounding::kStochastic};

std::vector<std::byte> quantised(const std::vector<float>& values, const Wire& wire,
                                 uint64_t first = 0, Workers* workers = nullptr) {
  std::vector<std::byte> out(encoded_bytes(wire.encoding, values.size()));
  cpu().quantise(values.data(), values.size(), wire, first, out.data(), {workers});
  return out;
}

std::vector<float> dequantised(const std::vector<std::byte>& encoded, Encoding encoding,
                               uint64_t count, Workers* workers = nullptr) {
  std::vector<float> out(count);
  cpu().dequantise(encoded.data(), count, encoding, out.data(), {workers});
  return out;
}

uint32_t scale_bits(const std::vector<std::byte>& encoded, size_t block) {
  uint32_t bits = 0;
  std::memcpy(&bits, encoded.data() + block * 4, sizeof(bits));
  return bits;
}

// NaN are alike whatever their payload.
void expect_alike(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(bits_of(a[i]), bits_of(b[i])) << i;
  }
}

class Values {
 public:
  // Moderate ones, with blocks of any bits, of subnormals and of zeros among them.
  std::vector<float> mixed(uint64_t count) {
    std::vector<float> values(count);
    std::normal_distribution<float> normal;
    for (uint64_t begin = 0; begin < count; begin += kScaled) {
      const auto kind = generator_() % 8;
      for (uint64_t i = begin; i < std::min(count, begin + kScaled); ++i) {
        const auto bits = static_cast<uint32_t>(generator_());
        values[i] = normal(generator_);
        if (kind == 0) values[i] = float_of(bits);                // any exponent
        if (kind == 1) values[i] = float_of(bits & 0x807FFFFFU);  // subnormal or zero
        if (kind == 2) values[i] = bits % 2 == 0 ? 0.0F : -0.0F;
        if (kind == 3) values[i] = std::ldexp(values[i], -110);  // around the smallest scale
        if (kind == 4) values[i] = float_of((bits & 0x8FFFFFFFU) | 0x70000000U);  // up to NaN
        if (kind == 5) values[i] *= 0x1p-15F;  // around fp16's subnormals
      }
    }
    return values;
  }
  uint64_t number() { return generator_(); }

 private:
  std::mt19937_64 generator_{11};
};

constexpr uint64_t kCounts[] = {0,   1,   2,    63,   64,   65,   127,  129,
                                960, 961, 1023, 1024, 1025, 2047, 3001, 5120};

TEST(Quantise, IsTheScalarDefinitionOnEveryTarget) {
  Values source;
  on_every_target([&] {
    for (const Encoding encoding : kEncodings) {
      for (const Rounding rounding : kRoundings) {
        for (const uint64_t count : kCounts) {
          const auto values = source.mixed(count);
          const Wire wire = {encoding, rounding, source.number()};
          const uint64_t first = source.number() % 5 * kGroup;
          const auto expected = reference::quantised(values.data(), count, wire, first);
          ASSERT_TRUE(same_bits(quantised(values, wire, first), expected))
              << static_cast<int>(encoding) << ' ' << count;
        }
      }
    }
  });
}

TEST(Quantise, TakesAnyAlignmentAndWritesNoMore) {
  Values source;
  on_every_target([&] {
    for (const Encoding encoding : kEncodings) {
      for (size_t offset = 0; offset < 5; ++offset) {
        const uint64_t count = 1024 + source.number() % 1024;
        const auto values = source.mixed(count + 1);
        const Wire wire = {encoding, Rounding::kStochastic, 5};
        const auto expected = reference::quantised(values.data() + 1, count, wire, 0);
        std::vector<std::byte> out(expected.size() + 16, std::byte{0xA5});
        cpu().quantise(values.data() + 1, count, wire, 0, out.data() + offset, {});
        ASSERT_EQ(std::memcmp(out.data() + offset, expected.data(), expected.size()), 0);
        for (size_t i = 0; i < out.size(); ++i) {
          if (i >= offset && i < offset + expected.size()) continue;
          ASSERT_EQ(out[i], std::byte{0xA5}) << i;
        }
        std::vector<float> back(count), plain(count);
        cpu().dequantise(out.data() + offset, count, encoding, back.data(), {});
        for (uint64_t i = 0; i < count; ++i) {
          plain[i] = reference::dequantised(expected.data(), encoding, i);
        }
        expect_alike(back, plain);
      }
    }
  });
}

TEST(Quantise, DecodesAnyCodesOnEveryTarget) {
  Values source;
  std::vector<std::byte> bytes(encoded_bytes(Encoding::kFloat32, 4000));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(source.number());
  on_every_target([&] {
    for (const Encoding encoding : kEncodings) {
      for (const uint64_t count : kCounts) {
        if (count > 4000) continue;
        std::vector<float> plain(count);
        for (uint64_t i = 0; i < count; ++i) {
          plain[i] = reference::dequantised(bytes.data(), encoding, i);
        }
        expect_alike(dequantised(bytes, encoding, count), plain);
      }
    }
  });
}

TEST(Quantise, AnyRangeOfBlocksCanBeDecoded) {
  Values source;
  const auto values = source.mixed(4000);
  on_every_target([&] {
    for (const Encoding encoding : kEncodings) {
      const auto encoded = quantised(values, {encoding});
      const auto whole = dequantised(encoded, encoding, values.size());
      for (int i = 0; i < 50; ++i) {
        const uint64_t first = source.number() % 62 * kScaled;
        const uint64_t count = source.number() % (values.size() - first + 1);
        std::vector<float> part(count);
        dequantise_values(encoded.data(), encoding, first, count, part.data());
        const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(first);
        expect_alike(part, {begin, begin + static_cast<std::ptrdiff_t>(count)});
      }
    }
  });
}

TEST(Quantise, PastTheCachesIsTheSame) {
  Values source;
  alignas(64) static std::byte out[16 * kGroup];
  alignas(64) static float back[4 * kGroup];
  on_every_target([&] {
    for (const Encoding encoding : kEncodings) {
      for (const Rounding rounding : kRoundings) {
        for (const uint64_t count : {3 * kGroup + 77, 4 * kGroup}) {
          const auto values = source.mixed(count);
          const Wire wire = {encoding, rounding, 8};
          const auto expected = quantised(values, wire);
          quantise_values(values.data(), count, wire, 0, out, true);
          ASSERT_EQ(std::memcmp(out, expected.data(), expected.size()), 0);
          dequantise_values(out, encoding, 0, count, back, true);
          expect_alike({back, back + count}, dequantised(expected, encoding, count));
        }
      }
    }
  });
}

TEST(Quantise, ThreadsDoNotShow) {
  Values source;
  const auto values = source.mixed(300 * kGroup + 77);
  for (const uint32_t size : {1U, 2U, 3U}) {
    ThreadTeam team(size);
    for (const Encoding encoding : kEncodings) {
      const Wire wire = {encoding, Rounding::kStochastic, 9};
      const auto encoded = quantised(values, wire, kGroup, &team);
      ASSERT_TRUE(same_bits(encoded, quantised(values, wire, kGroup)));
      expect_alike(dequantised(encoded, encoding, values.size(), &team),
                   dequantised(encoded, encoding, values.size()));
    }
  }
}

#if defined(__x86_64__)
TEST(Quantise, FlushToZeroDoesNotShow) {
  Values source;
  const auto values = source.mixed(20 * kGroup);
  on_every_target([&] {
    for (const Encoding encoding : kEncodings) {
      for (const Rounding rounding : kRoundings) {
        const Wire wire = {encoding, rounding, 3};
        const auto expected = quantised(values, wire);
        const auto decoded = dequantised(expected, encoding, values.size());
        const unsigned saved = _mm_getcsr();
        _mm_setcsr(saved | 0x8040U);  // flush results, and read subnormals as zero
        const auto encoded = quantised(values, wire);
        const auto flushed = dequantised(expected, encoding, values.size());
        _mm_setcsr(saved);
        ASSERT_TRUE(same_bits(encoded, expected)) << static_cast<int>(encoding);
        expect_alike(flushed, decoded);
      }
    }
  });
}
#endif

TEST(Quantise, StaysWithinHalfAScale) {
  std::mt19937_64 generator(3);
  std::normal_distribution<float> normal;
  for (const Encoding encoding : kScaledOnes) {
    for (const Rounding rounding : kRoundings) {
      std::vector<float> values(8 * kGroup);
      for (float& value : values) value = normal(generator) * std::ldexp(1.0F, -20);
      const auto encoded = quantised(values, {encoding, rounding, 1});
      const auto decoded = dequantised(encoded, encoding, values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        float largest = 0;
        const size_t block = i / kScaled * kScaled;
        for (size_t j = 0; j < kScaled; ++j)
          largest = std::max(largest, std::abs(values[block + j]));
        const double step = static_cast<double>(largest) / code_limit(encoding);
        // The products that make code and value are off by three roundings of Q steps.
        const double bound = step * (rounding == Rounding::kNearest ? 0.5 : 1.0) * (1 + 1e-4);
        ASSERT_LE(std::abs(static_cast<double>(values[i]) - static_cast<double>(decoded[i])),
                  bound);
      }
    }
  }
}

TEST(Quantise, LargestValueIsExactToRounding) {
  for (const Encoding encoding : kScaledOnes) {
    for (const float largest : {1.0F, 3.0F, 1e-30F, 1e38F, FLT_MAX, 0x1p-100F}) {
      std::vector<float> values(kScaled, 0.0F);
      values[7] = -largest;
      const auto decoded = dequantised(quantised(values, {encoding}), encoding, kScaled);
      EXPECT_TRUE(std::isfinite(decoded[7])) << largest;
      EXPECT_NEAR(static_cast<double>(decoded[7] / largest), -1.0, 2e-7);
      EXPECT_EQ(bits_of(decoded[0]), 0U);
    }
  }
}

TEST(Quantise, TinyBlocksDecodeToZero) {
  for (const Encoding encoding : kScaledOnes) {
    for (const Rounding rounding : kRoundings) {
      const float below = std::nextafter(kSmallestScaled, 0.0F);
      const std::vector<float> values = {below, -below, FLT_MIN, -FLT_TRUE_MIN, -0.0F};
      const auto encoded = quantised(values, {encoding, rounding, 4});
      EXPECT_EQ(scale_bits(encoded, 0), 0U);
      for (const float value : dequantised(encoded, encoding, values.size())) {
        EXPECT_EQ(bits_of(value), 0U);
      }
    }
  }
}

TEST(Quantise, NotFiniteBlocksShowInTheirScaleOnly) {
  on_every_target([] {
    for (const Encoding encoding : kScaledOnes) {
      for (const Rounding rounding : kRoundings) {
        for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
          std::vector<float> values(3 * kScaled - 11, 1.0F);
          values[2 * kScaled + 5] = bad;
          const auto encoded = quantised(values, {encoding, rounding, 4});
          EXPECT_EQ(scale_bits(encoded, 2), kNotFiniteScale);
          EXPECT_FALSE(finite_scale(scale_bits(encoded, 2), encoding));
          EXPECT_TRUE(finite_scale(scale_bits(encoded, 1), encoding));
          const auto decoded = dequantised(encoded, encoding, values.size());
          for (size_t i = 0; i < values.size(); ++i) {
            EXPECT_EQ(std::isnan(decoded[i]), i >= 2 * kScaled) << i;
          }
        }
      }
    }
  });
}

TEST(Quantise, ScalesWithoutValuesAreZero) {
  for (const Encoding encoding : kScaledOnes) {
    const auto encoded = quantised(std::vector<float>(65, 1.0F), {encoding});
    for (size_t block = 2; block < kGroup / kScaled; ++block) {
      EXPECT_EQ(scale_bits(encoded, block), 0U);
    }
    const auto last = static_cast<int>(encoded.back());
    EXPECT_EQ(last, code_limit(encoding));  // and an upper half without value is 0
  }
}

// What goes over the wire may not change unnoticed: other versions decode it.
TEST(Quantise, GoldenGroup) {
  std::vector<float> values(kGroup);
  for (uint32_t i = 0; i < kGroup; ++i) {
    values[i] = static_cast<float>(static_cast<int32_t>(i * 2654435761U)) * 0x1p-31F;
  }
  const auto digest = [&](const Wire& wire) {
    uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
    for (const std::byte byte : quantised(values, wire, 3 * kGroup)) {
      hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001B3ULL;
    }
    return hash;
  };
  std::vector<uint64_t> digests;
  for (const Encoding encoding : kEncodings) {
    for (const Rounding rounding : kRoundings) digests.push_back(digest({encoding, rounding, 42}));
  }
  EXPECT_EQ(digests, (std::vector<uint64_t>{8390930862705209380U, 8390930862705209380U,
                                            15305375635927190074U, 2038647693926023441U,
                                            1356179545939685318U, 1528967799834580122U,
                                            16622587638231932144U, 2918951512365020456U,
                                            1434846481800090493U, 16256580911741419306U}));
}

}  // namespace
}  // namespace asyncmesh::kernels
