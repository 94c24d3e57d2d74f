// Results may not depend on the instruction set: the vectorised rows against the baseline, bitwise.
#include "kernels/cpu/rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace asyncmesh::kernels {
namespace {

class RowsOfEachIsa : public testing::Test {
 protected:
  std::vector<float> values(uint64_t count) {
    std::vector<float> result(count);
    for (float& value : result) {
      // Every exponent, so that subnormals, overflows and non-finite values take part.
      const auto bits = static_cast<uint32_t>(generator_());
      memcpy(&value, &bits, sizeof(bits));
    }
    return result;
  }
  std::vector<float> moderate(uint64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> result(count);
    for (float& value : result) value = normal(generator_);
    return result;
  }
  // This machine's rows; the comparison is trivially true where there is only the baseline.
  const Rows& best_ = rows();
  const Rows& baseline_ = baseline_rows();
  std::mt19937_64 generator_{7};
};

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

TEST_F(RowsOfEachIsa, EncodeAndDecodeAlike) {
  for (const Encoding encoding : {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16}) {
    for (const uint64_t count : {0, 1, 7, 8, 63, 100003}) {
      const auto input = values(count);
      std::vector<std::byte> a(encoded_bytes(encoding, count)), b(a.size());
      best_.encode(input.data(), count, encoding, a.data());
      baseline_.encode(input.data(), count, encoding, b.data());
      ASSERT_TRUE(same_bits(a, b)) << count;
      std::vector<float> c(count), d(count);
      best_.decode(a.data(), count, encoding, c.data());
      baseline_.decode(a.data(), count, encoding, d.data());
      ASSERT_TRUE(same_bits(c, d)) << count;
    }
  }
}

TEST_F(RowsOfEachIsa, DecodeEveryFloat16Alike) {
  std::vector<uint16_t> words(65536);
  for (uint32_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint16_t>(i);
  std::vector<float> a(words.size()), b(words.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
  best_.decode(bytes, words.size(), Encoding::kFloat16, a.data());
  baseline_.decode(bytes, words.size(), Encoding::kFloat16, b.data());
  EXPECT_TRUE(same_bits(a, b));
}

TEST_F(RowsOfEachIsa, ApplyAlike) {
  constexpr uint64_t kCount = 1003;
  const auto snapshot = moderate(kCount), mean = moderate(kCount), own = moderate(kCount);
  for (const Rule rule : {Rule::kAverage, Rule::kDelta, Rule::kEma}) {
    for (const bool lossy : {false, true}) {
      for (const bool first : {false, true}) {
        auto w1 = moderate(kCount), e1 = moderate(kCount);
        auto w2 = w1, e2 = e1;
        const ApplyFactors factors = {0.7F, 0.3F, 0.9F};
        ApplyRow row = {w1.data(), snapshot.data(), mean.data(), lossy ? own.data() : nullptr,
                        e1.data(), kCount,          first};
        best_.apply(row, rule, factors);
        row.w = w2.data();
        row.ema = e2.data();
        baseline_.apply(row, rule, factors);
        EXPECT_TRUE(same_bits(w1, w2));
        EXPECT_TRUE(same_bits(e1, e2));
      }
    }
  }
}

TEST_F(RowsOfEachIsa, NadamwAlike) {
  constexpr uint64_t kCount = 1003;
  NadamwArgs args;
  args.gradient_factor = 1e-3;
  args.momentum_factor = 2e-3;
  args.gradient_scale = 0.3;
  const NadamwFactors factors(args);
  const auto gradient = moderate(kCount);
  auto w1 = moderate(kCount), m1 = moderate(kCount), v1 = moderate(kCount);
  for (float& value : v1) value *= value;
  auto w2 = w1, m2 = m1, v2 = v1;
  std::vector<float> mirror(kCount);
  for (int step = 0; step < 5; ++step) {
    best_.nadamw({w1.data(), gradient.data(), m1.data(), v1.data(), mirror.data(), kCount},
                 factors);
    baseline_.nadamw({w2.data(), gradient.data(), m2.data(), v2.data(), nullptr, kCount}, factors);
  }
  EXPECT_TRUE(same_bits(w1, w2));
  EXPECT_TRUE(same_bits(m1, m2));
  EXPECT_TRUE(same_bits(v1, v2));
  EXPECT_TRUE(same_bits(w1, mirror));
}

TEST_F(RowsOfEachIsa, SumOfSquaresAlike) {
  for (const uint64_t count : {0, 1, 15, 16, 17, 65535, 65536, 200001}) {
    const auto input = moderate(count);
    const double sum = best_.sum_of_squares(input.data(), count);
    EXPECT_EQ(sum, baseline_.sum_of_squares(input.data(), count));
    long double expected = 0;
    for (const float value : input) expected += static_cast<long double>(value) * value;
    EXPECT_NEAR(sum, static_cast<double>(expected), 1e-12 * static_cast<double>(expected));
  }
}

TEST_F(RowsOfEachIsa, FindEveryNonFiniteWordAlike) {
  for (const Encoding encoding : {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16}) {
    for (uint64_t bad = 0; bad < 200; ++bad) {
      std::vector<float> input(200, 1.0F);
      std::vector<std::byte> words(encoded_bytes(encoding, 200));
      best_.encode(input.data(), 200, encoding, words.data());
      EXPECT_TRUE(best_.all_finite(words.data(), 200, encoding));
      input[bad] = bad % 2 == 0 ? INFINITY : NAN;
      best_.encode(input.data(), 200, encoding, words.data());
      EXPECT_FALSE(best_.all_finite(words.data(), 200, encoding));
      EXPECT_FALSE(baseline_.all_finite(words.data(), 200, encoding));
    }
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
