// The kernels over contiguous runs of cuda() against those of cpu(): bitwise, but for the sum of
// squares.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>

#include "kernels/encoding.h"
#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

using backend::Array;
using backend::array_of;
using backend::finish;
using backend::same_bits;

constexpr Encoding kEncodings[] = {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// The last is more than the largest grid has threads.
constexpr uint64_t kSizes[] = {0, 1, 2, 31, 33, 255, 257, 9999, 65536, (1 << 20) + 77};

// Random bits: every kind of NaN, infinities and subnormals among them.
Array<float> random_bits(uint64_t count, uint64_t seed) {
  Array<float> values(count);
  for (float& value : values) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    value = float_of(static_cast<uint32_t>(seed >> 32));
  }
  return values;
}

Array<float> random_values(uint64_t count, uint64_t seed) {
  return array_of(RandomTable({1}, 1, seed).random_values(count));
}

class CudaDense : public testing::TestWithParam<uint64_t> {};
class CudaSum : public testing::TestWithParam<uint64_t> {};

TEST_P(CudaDense, EncodeLikeTheCpu) {
  const auto values = random_bits(GetParam(), 31);
  for (const Encoding encoding : kEncodings) {
    Array<std::byte> out(encoded_bytes(encoding, GetParam()) + 1, std::byte{0xAB});
    auto expected = out;
    cpu().quantise(values.data(), GetParam(), {encoding}, 0, expected.data(), {});
    cuda()->quantise(values.data(), GetParam(), {encoding}, 0, out.data(), {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(out, expected));
  }
}

TEST_P(CudaDense, DecodeLikeTheCpu) {
  for (const Encoding encoding : kEncodings) {
    Array<uint16_t> words(GetParam() * encoded_bytes(encoding, 1) / 2);
    for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint16_t>(i);  // all of them
    const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
    Array<float> out(GetParam() + 1, -7.0F);
    auto expected = out;
    cpu().dequantise(bytes, GetParam(), encoding, expected.data(), {});
    cuda()->dequantise(bytes, GetParam(), encoding, out.data(), {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(out, expected));
  }
}

TEST_P(CudaDense, NadamwLikeTheCpu) {
  const uint64_t count = GetParam();
  NadamwArgs args;
  args.lr = args.gradient_factor = 1e-3;
  args.weight_decay = 0.01;
  args.gradient_scale = 0.5;
  args.momentum_factor = 9e-4;
  auto w = random_values(count, 32), m = random_values(count, 33), v = w;
  for (float& value : v) value *= value;
  Array<float> mirror(count + 1, -7.0F);
  auto expected_w = w, expected_m = m, expected_v = v, expected_mirror = mirror;
  for (uint32_t step = 0; step < 3; ++step) {
    auto gradient = random_values(count, 34 + step);
    for (uint64_t i = step; i < count; i += 7) gradient[i] = 0;
    args.variance_factor = 1 / (1 - std::pow(args.beta2, step + 1.0));
    const bool mirrored = step == 1;
    NadamwArrays arrays = {expected_w.data(), gradient.data()};
    arrays.m = expected_m.data();
    arrays.v = expected_v.data();
    arrays.mirror = mirrored ? expected_mirror.data() : nullptr;
    cpu().nadamw(arrays, count, args, {});
    arrays.w = w.data();
    arrays.m = m.data();
    arrays.v = v.data();
    arrays.mirror = mirrored ? mirror.data() : nullptr;
    cuda()->nadamw(arrays, count, args, {});
    ASSERT_EQ(finish(), "");
  }
  EXPECT_TRUE(same_bits(w, expected_w));
  EXPECT_TRUE(same_bits(m, expected_m));
  EXPECT_TRUE(same_bits(v, expected_v));
  EXPECT_TRUE(same_bits(mirror, expected_mirror));
}

TEST_P(CudaSum, IsThatOfDoublesAndRepeats) {
  const auto values = random_values(GetParam(), 35);
  double expected = 0, lost = 0;  // compensated: the order of additions plays no part
  for (const float value : values) {
    const double term = static_cast<double>(value) * static_cast<double>(value) - lost;
    const double sum = expected + term;
    lost = (sum - expected) - term;
    expected = sum;
  }
  Array<double> first(kSumSlots, kNan), second(kSumSlots, 1e300);
  cuda()->sum_of_squares(values.data(), GetParam(), first.data(), {});
  cuda()->sum_of_squares(values.data(), GetParam(), second.data(), {});
  ASSERT_EQ(finish(), "");
  EXPECT_NEAR(first[0], expected, 1e-13 * expected);
  EXPECT_EQ(first[0], second[0]);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaDense, testing::ValuesIn(kSizes));
INSTANTIATE_TEST_SUITE_P(Sizes, CudaSum,
                         testing::Values(0, 1, 9999, kSizes[std::size(kSizes) - 1]));

// Contributions of `members` ranks and their average by both.
class CudaAverage : public testing::TestWithParam<Encoding> {
 protected:
  void contribute(uint32_t members, uint64_t count) {
    count_ = count;
    values_.clear();
    for (uint32_t r = 0; r < members; ++r) {
      values_.push_back(random_values(count, 40 + r));
      weights_.push_back(0.3F + static_cast<float>(r));
    }
    present_.assign(members, true);
  }

  // Returns the contributions left out for what they hold.
  uint64_t expect_like_the_cpu() {
    std::vector<Array<std::byte>> encoded;
    std::vector<const std::byte*> pointers;
    const auto members = static_cast<uint32_t>(values_.size());
    for (uint32_t r = 0; r < members; ++r) {
      auto& bytes = encoded.emplace_back(encoded_bytes(GetParam(), count_));
      cpu().quantise(values_[r].data(), count_, {GetParam()}, 0, bytes.data(), {});
      pointers.push_back(present_[r] ? bytes.data() : nullptr);
    }
    Array<float> mean(count_ + 1, -7.0F), expected(count_ + 1, -7.0F);
    Array<uint64_t> not_finite(1, ~0ULL);
    uint64_t left_out = ~0ULL;
    const Contributions from = {pointers.data(), weights_.data(), members, GetParam()};
    const uint32_t averaged = cpu().average(from, count_, expected.data(), &left_out, {});
    const uint32_t candidates = cuda()->average(from, count_, mean.data(), not_finite.data(), {});
    EXPECT_EQ(finish(), "");
    EXPECT_EQ(not_finite[0], left_out);
    EXPECT_EQ(candidates, averaged + static_cast<uint32_t>(__builtin_popcountll(left_out)));
    EXPECT_EQ(mean.back(), -7.0F);
    if (averaged >= 2) {
      EXPECT_TRUE(same_bits(mean, expected));
    }
    return left_out;
  }

  uint64_t count_ = 0;
  std::vector<Array<float>> values_;
  std::vector<float> weights_;
  std::vector<bool> present_;
};

TEST_P(CudaAverage, LikeTheCpu) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{257}, uint64_t{5001}}) {
    for (const uint32_t members : {1U, 2U, 5U}) {
      contribute(members, count);
      EXPECT_EQ(expect_like_the_cpu(), 0U);
    }
  }
  contribute(kMaxMembers, 100);
  EXPECT_EQ(expect_like_the_cpu(), 0U);
  if (GetParam() != Encoding::kBfloat16) return;
  contribute(2, kSizes[std::size(kSizes) - 1]);
  EXPECT_EQ(expect_like_the_cpu(), 0U);
}

TEST_P(CudaAverage, LeavesOutWhatIsNotFinite) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    contribute(4, 3001);
    values_[1][3000] = bad;
    EXPECT_EQ(expect_like_the_cpu(), 0b0010U);
    values_[3][0] = values_[0][300] = bad;
    EXPECT_EQ(expect_like_the_cpu(), 0b1011U);
  }
  contribute(kMaxMembers, 3);
  values_[63][2] = kNan;
  EXPECT_EQ(expect_like_the_cpu(), 1ULL << 63);
}

TEST_P(CudaAverage, SkipsAbsentMembersAndOddWeights) {
  contribute(9, 1000);
  present_[0] = false;
  weights_ = {1.0F, 0.0F, -1.0F, kNan, kInfinity, 2.0F, 0.7F, 1e-30F, 3.0F};
  values_[1][5] = values_[3][6] = kNan;  // of no interest, as their weight is
  EXPECT_EQ(expect_like_the_cpu(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Encodings, CudaAverage, testing::ValuesIn(kEncodings));

}  // namespace
}  // namespace asyncmesh::kernels
