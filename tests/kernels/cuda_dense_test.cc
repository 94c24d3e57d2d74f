// The optimiser's kernels, table_ema and the sums of cuda() against those of cpu(): bitwise, but
// for the sums.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

using backend::Array;
using backend::finish;
using backend::kStorages;
using backend::Layout;
using backend::random_values;
using backend::same_bits;

// The last is more than the executor's largest grid takes at a time.
constexpr uint64_t kSizes[] = {0, 1, 2, 7, 31, 257, 4099, 20000};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Array<std::byte> stored(const Array<float>& values, Encoding storage) {
  Array<std::byte> bytes(encoded_bytes(storage, values.size()));
  cpu().quantise(values.data(), values.size(), {storage}, 0, bytes.data(), {});
  return bytes;
}

// Arrays start `skew` values off their alignment, or every second one does (apart).
struct Skew {
  uint64_t all, others;
};
constexpr Skew kSkews[] = {{0, 0}, {3, 3}, {0, 1}};

class CudaDense : public testing::TestWithParam<uint64_t> {
 protected:
  struct State {
    Array<std::byte> w;
    Array<float> m, v;
    Array<std::byte> mirror;
  };

  static void step(const Table& kernels, State& state, const Array<std::byte>& gradient,
                   Encoding storage, Encoding mirror, Skew skew, const NadamwArgs& args) {
    const size_t size = encoded_bytes(storage, 1);
    NadamwArrays arrays;
    arrays.w = state.w.data() + skew.all * size;
    arrays.gradient = gradient.data() + skew.all * size;
    arrays.storage = storage;
    arrays.m = state.m.data() + skew.others;
    arrays.v = state.v.data() + skew.all;
    arrays.mirror = state.mirror.empty() ? nullptr : state.mirror.data();
    arrays.mirror_storage = mirror;
    kernels.nadamw(arrays, GetParam(), args, {});
  }
};

TEST_P(CudaDense, NadamwLikeTheCpu) {
  const uint64_t size = GetParam() + 8;
  NadamwArgs args;
  args.lr = args.gradient_factor = 1e-3;
  args.weight_decay = 0.01;
  args.gradient_scale = 0.5;
  args.momentum_factor = 9e-4;
  uint32_t seed = 32;
  for (const Encoding storage : kStorages) {
    for (const Skew skew : kSkews) {
      auto v = random_values(size, seed);
      for (float& value : v) value *= value;
      State state = {
          stored(random_values(size, ++seed), storage), random_values(size, ++seed), v, {}};
      if (skew.all == 0) state.mirror = stored(v, Encoding::kBfloat16);
      State expected = state;
      for (uint32_t number = 0; number < 2; ++number) {
        const auto gradient = stored(random_values(size, ++seed), storage);
        args.variance_factor = 1 / (1 - std::pow(args.beta2, number + 1.0));
        step(cpu(), expected, gradient, storage, Encoding::kBfloat16, skew, args);
        step(*cuda(), state, gradient, storage, Encoding::kBfloat16, skew, args);
        ASSERT_EQ(finish(), "");
      }
      EXPECT_TRUE(same_bits(state.w, expected.w));
      EXPECT_TRUE(same_bits(state.m, expected.m));
      EXPECT_TRUE(same_bits(state.v, expected.v));
      EXPECT_TRUE(same_bits(state.mirror, expected.mirror));
    }
  }
}

TEST_P(CudaDense, LookAheadLikeTheCpu) {
  for (const Skew skew : kSkews) {
    const auto w = random_values(GetParam() + 8, 1), previous = random_values(GetParam() + 8, 2);
    Array<float> point(GetParam() + 8, -7.0F), expected = point;
    cpu().look_ahead(w.data() + skew.all, previous.data() + skew.others, GetParam(), 0.7F,
                     expected.data() + skew.all, {});
    cuda()->look_ahead(w.data() + skew.all, previous.data() + skew.others, GetParam(), 0.7F,
                       point.data() + skew.all, {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(point, expected));
  }
}

TEST_P(CudaDense, NesterovLikeTheCpu) {
  for (const Skew skew : kSkews) {
    auto w = random_values(GetParam() + 8, 1), previous = random_values(GetParam() + 8, 2);
    const auto gradient = random_values(GetParam() + 8, 3);
    auto expected_w = w, expected_previous = previous;
    cpu().nesterov(expected_w.data() + skew.all, expected_previous.data() + skew.others,
                   gradient.data() + skew.all, GetParam(), 0.9F, 0.01F, {});
    cuda()->nesterov(w.data() + skew.all, previous.data() + skew.others, gradient.data() + skew.all,
                     GetParam(), 0.9F, 0.01F, {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(w, expected_w));
    EXPECT_TRUE(same_bits(previous, expected_previous));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaDense, testing::ValuesIn(kSizes));

class CudaTable : public testing::TestWithParam<std::tuple<Encoding, Layout>> {};

std::vector<uint64_t> some_counts() { return {5, 0, 640, 1, 4999, 64, 300, 4096}; }

TEST_P(CudaTable, EmaLikeTheCpu) {
  const auto [storage, layout] = GetParam();
  for (const auto& counts : {some_counts(), backend::many_counts()}) {
    const backend::Table table(counts, 64, storage, layout, 4);
    auto average = random_values(table.elements(), 5), expected = average;
    cpu().table_ema(table.view(), 0.99F, expected.data(), {});
    cuda()->table_ema(table.view(), 0.99F, average.data(), {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(average, expected));
  }
}

TEST_P(CudaTable, CompareWithinTheErrorOfDoubleSums) {
  const auto [storage, layout] = GetParam();
  for (const auto& counts : {std::vector<uint64_t>{}, some_counts(), backend::many_counts()}) {
    const backend::Table first(counts, 64, storage, layout, 4);
    const backend::Table second(counts, 64, Encoding::kFloat32, Layout::kAligned, 5);
    Array<double> sums(kSumSlots, kNan), again(kSumSlots, 1e300);
    std::vector<double> expected(kSumSlots);
    cpu().compare(first.view(), second.view(), expected.data(), {});
    cuda()->compare(first.view(), second.view(), sums.data(), {});
    cuda()->compare(first.view(), second.view(), again.data(), {});
    ASSERT_EQ(finish(), "");
    const double scale = expected[2] + expected[3];
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(sums[i], expected[i], 1e-13 * scale);
      EXPECT_EQ(sums[i], again[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, CudaTable,
                         testing::Combine(testing::ValuesIn(kStorages),
                                          testing::Values(Layout::kOdd, Layout::kAligned)));

TEST(CudaSum, IsThatOfDoublesAndDependsOnTheValuesOnly) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{9999}, uint64_t{300000}}) {
    const auto values = random_values(count + 1, 35);
    Array<float> moved(values.begin() + 1, values.end());
    double expected = 0, lost = 0;  // compensated: the order of additions plays no part
    for (const float value : moved) {
      const double term = static_cast<double>(value) * static_cast<double>(value) - lost;
      const double sum = expected + term;
      lost = (sum - expected) - term;
      expected = sum;
    }
    Array<double> first(kSumSlots, kNan), second(kSumSlots, 1e300);
    cuda()->sum_of_squares(values.data() + 1, count, first.data(), {});
    cuda()->sum_of_squares(moved.data(), count, second.data(), {});
    ASSERT_EQ(finish(), "");
    EXPECT_NEAR(first[0], expected, 1e-13 * expected);
    EXPECT_EQ(first[0], second[0]);
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
