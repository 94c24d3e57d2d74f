#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/thread_team.h"
#include "kernels/kernels.h"
#include "tests/kernels/every_target.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace asyncmesh::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Contributions of `members` ranks, encoded; and one call of the kernel on them.
struct Members {
  Members(uint32_t members, uint64_t elements, Encoding with, uint64_t seed)
      : encoding(with), count(elements), values(members), encoded(members), weights(members, 1.0F) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<float> normal;
    for (uint32_t r = 0; r < members; ++r) {
      values[r].resize(count);
      for (float& value : values[r]) value = normal(generator);
      encode(r);
    }
  }

  void encode(uint32_t r) {
    encoded[r].resize(encoded_bytes(encoding, count) + 1);
    cpu().quantise(values[r].data(), count, {encoding}, 0, encoded[r].data() + 1, {});
    cpu().dequantise(encoded[r].data() + 1, count, encoding, values[r].data(), {});
    if (pointers.size() <= r) pointers.resize(r + 1);
    pointers[r] = encoded[r].data() + 1;
  }

  uint32_t average() {
    mean.assign(count, -7.0F);
    const auto members = static_cast<uint32_t>(values.size());
    return cpu().average({pointers.data(), weights.data(), members, encoding}, count, mean.data(),
                         &not_finite, on);
  }

  Encoding encoding;
  uint64_t count;
  std::vector<std::vector<float>> values;       // as decoded
  std::vector<std::vector<std::byte>> encoded;  // at odd addresses
  std::vector<const std::byte*> pointers;
  std::vector<float> weights;
  std::vector<float> mean;
  uint64_t not_finite = ~0ULL;
  Execution on;
};

class Average : public testing::TestWithParam<Encoding> {};

TEST_P(Average, SumsInMemberOrderAndMultipliesByTheReciprocal) {
  Members input(5, 3001, GetParam(), 1);
  input.weights = {1.0F, 0.25F, 3.0F, 17.5F, 0.1F};
  ASSERT_EQ(input.average(), 5U);
  EXPECT_EQ(input.not_finite, 0U);
  double weight_sum = 0;
  for (const float weight : input.weights) weight_sum += static_cast<double>(weight);
  const auto reciprocal = static_cast<float>(1.0 / weight_sum);
  for (uint64_t i = 0; i < input.count; ++i) {
    volatile float sum = input.weights[0] * input.values[0][i];
    for (uint32_t r = 1; r < 5; ++r) {
      const volatile float term = input.weights[r] * input.values[r][i];
      sum = sum + term;
    }
    ASSERT_EQ(input.mean[i], sum * reciprocal) << i;
  }
}

TEST_P(Average, LeavesOutWhatIsNotFinite) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    Members input(4, 5000, GetParam(), 2);
    Members without(3, 5000, GetParam(), 2);
    without.pointers = {input.pointers[0], input.pointers[2], input.pointers[3]};
    input.values[1][4999] = bad;
    input.encode(1);
    ASSERT_EQ(input.average(), 3U);
    EXPECT_EQ(input.not_finite, 0b0010U);
    ASSERT_EQ(without.average(), 3U);
    EXPECT_EQ(input.mean, without.mean);
  }
}

// Neither on the instruction set nor on the number of threads; beyond 8 MiB the mean is written
// around the caches.
TEST_P(Average, DoesNotDependOnTargetOrThreads) {
  ThreadTeam two(2), three(3);
  for (const uint64_t count : {uint64_t{1}, uint64_t{77}, uint64_t{70003}, uint64_t{2100005}}) {
    Members input(2, count, GetParam(), 11);
    input.weights = {1.0F, 0.25F};
    ASSERT_EQ(input.average(), 2U);
    const std::vector<float> expected = input.mean;
    for (Workers* const workers : {static_cast<Workers*>(&two), static_cast<Workers*>(&three)}) {
      input.on.workers = workers;
      ASSERT_EQ(input.average(), 2U);
      EXPECT_TRUE(same_bits(input.mean, expected));
    }
    input.on.workers = nullptr;
    if (count > 200000) continue;
    on_every_target([&] {
      ASSERT_EQ(input.average(), 2U);
      EXPECT_TRUE(same_bits(input.mean, expected));
    });
  }
}

// A sum may overflow though every contribution is finite: then all of them count.
TEST_P(Average, KeepsContributionsWhoseSumOverflows) {
  Members input(2, 5000, GetParam(), 12);
  const float large = GetParam() == Encoding::kFloat16 ? 65504.0F : 3e38F;
  for (uint32_t r = 0; r < 2; ++r) {
    input.values[r][3000] = large;
    input.encode(r);
  }
  input.weights = {3e38F, 3e38F};
  EXPECT_EQ(input.average(), 2U);
  EXPECT_EQ(input.not_finite, 0U);
}

INSTANTIATE_TEST_SUITE_P(Encoding, Average,
                         testing::Values(Encoding::kFloat32, Encoding::kBfloat16,
                                         Encoding::kFloat16, Encoding::kInt8, Encoding::kInt4));

TEST(AverageMembers, SkipsNullZeroNegativeAndNonFiniteWeights) {
  Members input(7, 10, Encoding::kFloat32, 3);
  input.pointers[0] = nullptr;
  input.weights = {1.0F, 0.0F, -1.0F, kNan, kInfinity, 2.0F, 2.0F};
  ASSERT_EQ(input.average(), 2U);
  EXPECT_EQ(input.not_finite, 0U);
  for (uint64_t i = 0; i < input.count; ++i) {
    EXPECT_FLOAT_EQ(input.mean[i], (input.values[5][i] + input.values[6][i]) / 2);
  }
}

TEST(AverageMembers, DoesNotLookAtTheValuesOfAGhost) {
  Members input(3, 10, Encoding::kFloat32, 3);
  input.values[1][0] = kNan;
  input.encode(1);
  input.weights[1] = 0;
  EXPECT_EQ(input.average(), 2U);
  EXPECT_EQ(input.not_finite, 0U);
}

TEST(AverageMembers, LeavesTheMeanAloneBelowTwoWeights) {
  Members input(2, 10, Encoding::kFloat32, 4);
  input.weights = {1.0F, 0.0F};
  EXPECT_EQ(input.average(), 1U);
  EXPECT_EQ(input.mean, std::vector<float>(10, -7.0F));
  input.weights = {0.0F, 0.0F};
  EXPECT_EQ(input.average(), 0U);
  EXPECT_EQ(input.mean, std::vector<float>(10, -7.0F));
}

TEST(AverageMembers, TakesTheMostMembers) {
  Members input(kMaxMembers, 3, Encoding::kFloat32, 5);
  input.values[63][2] = kNan;
  input.encode(63);
  EXPECT_EQ(input.average(), 63U);
  EXPECT_EQ(input.not_finite, 1ULL << 63);
}

TEST(AverageMembers, TwoEqualWeightsGiveTheExactMidpoint) {
  Members input(2, 4, Encoding::kFloat32, 6);
  input.values = {{1, 3, -5, 0.5F}, {2, 4, 8, 0.25F}};
  input.encode(0);
  input.encode(1);
  input.average();
  EXPECT_EQ(input.mean, (std::vector<float>{1.5F, 3.5F, 1.5F, 0.375F}));
}

TEST(AverageMembers, ReportsALoneContributionThatIsNotFinite) {
  Members input(2, 5000, Encoding::kFloat32, 7);
  input.weights[0] = 0;
  input.values[1][4999] = kNan;
  input.encode(1);
  EXPECT_EQ(input.average(), 0U);
  EXPECT_EQ(input.not_finite, 0b10U);
}

TEST(AverageMembers, ReportsEveryContributionThatIsNotFinite) {
  Members input(3, 10000, Encoding::kFloat32, 7);
  input.values[0][9999] = kNan;  // in a later tile than the other
  input.values[2][0] = kInfinity;
  input.encode(0);
  input.encode(2);
  EXPECT_EQ(input.average(), 1U);
  EXPECT_EQ(input.not_finite, 0b101U);
}

TEST(AverageMembers, NothingToAverageIsFine) {
  Members input(2, 0, Encoding::kFloat32, 8);
  EXPECT_EQ(input.average(), 2U);
}

#if defined(__x86_64__)
// A replica whose thread flushes subnormals must not get another mean.
TEST(AverageMembers, DoesNotDependOnFlushToZeroNorChangesIt) {
  Members input(2, 2, Encoding::kFloat32, 9);
  input.values = {{1e-40F, 3e-39F}, {1e-40F, 1e-39F}};
  for (uint32_t r = 0; r < 2; ++r) memcpy(input.encoded[r].data() + 1, input.values[r].data(), 8);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040U);
  input.average();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0x8040U, 0x8040U);
  EXPECT_EQ(input.mean, (std::vector<float>{1e-40F, (3e-39F + 1e-39F) / 2}));
}
#endif

}  // namespace
}  // namespace asyncmesh::kernels
