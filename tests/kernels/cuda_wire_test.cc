// quantise, dequantise and average of cuda() against those of cpu(), bitwise.
#include <gtest/gtest.h>

#include <iterator>
#include <limits>

#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

using backend::Array;
using backend::finish;
using backend::kEncodings;
using backend::random_bits;
using backend::random_values;
using backend::same_bits;
using backend::same_numbers;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// The last is more than the executor's largest grid takes at a time.
constexpr uint64_t kSizes[] = {0,   1,    2,    31,   33,   64,   255,       257,
                               960, 1023, 1024, 1025, 2047, 9999, 65536 + 77};

class CudaWire : public testing::TestWithParam<uint64_t> {
 protected:
  // `skew`: values by which the array is off its alignment.
  void expect_quantise_like_the_cpu(const Array<float>& values, uint64_t skew, const Wire& wire) {
    const uint64_t count = values.size() - skew, first = 5 * kGroup;
    Array<std::byte> out(encoded_bytes(wire.encoding, count) + 1, std::byte{0xAB});
    auto expected = out;
    cpu().quantise(values.data() + skew, count, wire, first, expected.data(), {});
    cuda()->quantise(values.data() + skew, count, wire, first, out.data(), {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(out, expected)) << static_cast<int>(wire.encoding);
  }
};

TEST_P(CudaWire, QuantiseLikeTheCpu) {
  const auto bits = random_bits(GetParam(), 31);
  auto values = random_values(GetParam() + 1, 32);
  for (uint64_t i = 0; i < values.size(); i += 100) values[i] *= 0x1p-110F;
  for (const Encoding encoding : kEncodings) {
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
      expect_quantise_like_the_cpu(bits, 0, {encoding, rounding, 99});
      expect_quantise_like_the_cpu(values, 1, {encoding, rounding, 77});
    }
  }
}

TEST_P(CudaWire, DequantiseLikeTheCpu) {
  for (const Encoding encoding : kEncodings) {
    Array<std::byte> bytes(encoded_bytes(encoding, GetParam()) + 4);
    backend::Random random(GetParam());
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits() >> 24);
    for (const uint64_t skew : {0, 1}) {
      Array<float> out(GetParam() + 2, -7.0F);
      auto expected = out;
      cpu().dequantise(bytes.data(), GetParam(), encoding, expected.data() + skew, {});
      cuda()->dequantise(bytes.data(), GetParam(), encoding, out.data() + skew, {});
      ASSERT_EQ(finish(), "");
      EXPECT_TRUE(scaled(encoding) ? same_numbers(out, expected) : same_bits(out, expected))
          << static_cast<int>(encoding);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaWire, testing::ValuesIn(kSizes));

// Contributions of `members` ranks and their average by both.
class CudaAverage : public testing::TestWithParam<Encoding> {
 protected:
  void contribute(uint32_t members, uint64_t count) {
    count_ = count;
    values_.clear();
    weights_.clear();
    for (uint32_t r = 0; r < members; ++r) {
      values_.push_back(random_values(count, 40 + r));
      weights_.push_back(0.3F + static_cast<float>(r));
    }
    present_.assign(members, true);
  }

  // Returns the contributions left out for what they hold.
  uint64_t expect_like_the_cpu(uint64_t skew = 0) {
    std::vector<Array<std::byte>> encoded;
    std::vector<const std::byte*> pointers;
    const auto members = static_cast<uint32_t>(values_.size());
    for (uint32_t r = 0; r < members; ++r) {
      auto& bytes = encoded.emplace_back(encoded_bytes(GetParam(), count_));
      cpu().quantise(values_[r].data(), count_, {GetParam()}, 0, bytes.data(), {});
      pointers.push_back(present_[r] ? bytes.data() : nullptr);
    }
    Array<float> mean(count_ + 2, -7.0F), expected(count_ + 2, -7.0F);
    Array<uint64_t> not_finite(1, ~0ULL);
    uint64_t left_out = ~0ULL;
    const Contributions from = {pointers.data(), weights_.data(), members, GetParam()};
    const uint32_t averaged = cpu().average(from, count_, expected.data() + skew, &left_out, {});
    const uint32_t candidates =
        cuda()->average(from, count_, mean.data() + skew, not_finite.data(), {});
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
      EXPECT_EQ(expect_like_the_cpu(count % 2), 0U);
    }
  }
  contribute(kMaxMembers, 1100);
  EXPECT_EQ(expect_like_the_cpu(), 0U);
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
  values_[6][7] = kNan;
  EXPECT_EQ(expect_like_the_cpu(), 1U << 6);
}

INSTANTIATE_TEST_SUITE_P(Encodings, CudaAverage, testing::ValuesIn(kEncodings));

}  // namespace
}  // namespace asyncmesh::kernels
