// pack and apply of cuda() against those of cpu(), bitwise.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

using backend::Array;
using backend::array_of;
using backend::finish;
using backend::same_bits;

constexpr float kUntouched = 12345.0F;

struct Shape {
  const char* name;
  std::vector<uint64_t> (*counts)();
  uint32_t granularity;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

std::vector<uint64_t> one() { return {0, 1, 0}; }
std::vector<uint64_t> odd() { return {3, 1, 0, 777, 13}; }
std::vector<uint64_t> large() { return {5, 300007, 1}; }
std::vector<uint64_t> random_counts() {
  RandomTable source({1}, 1, 77);
  std::vector<uint64_t> counts;
  for (const float value : source.random_values(60)) {
    counts.push_back(static_cast<uint64_t>(std::abs(value) * 150));
  }
  return counts;
}
// More tensors and more short blocks than one launch holds.
std::vector<uint64_t> many() {
  std::vector<uint64_t> counts = awkward_counts();
  for (uint64_t i = 0; i < 700; ++i) counts.push_back(1 + i * 61 % 200);
  return counts;
}

const Shape kShapes[] = {{"one", one, 64},
                         {"odd1", odd, 1},
                         {"odd7", odd, 7},
                         {"random1", random_counts, 1},
                         {"random64", random_counts, 64},
                         {"awkward150", awkward_counts, 150},
                         {"many64", many, 64},
                         {"many5000", many, 5000}};
// More blocks than the largest grid has warps.
const Shape kLarge = {"large8", large, 8};

class CudaPack : public testing::TestWithParam<std::tuple<Shape, Encoding>> {
 protected:
  void expect_like_the_cpu(const Subset& subset, bool with_snapshot, bool with_encoded) {
    const Encoding encoding = std::get<1>(GetParam());
    const uint64_t count = cpu().subset_elements(table_view(), subset);
    ASSERT_EQ(cuda()->subset_elements(table_view(), subset), count);
    Array<float> snapshot(count + 1, kUntouched);
    Array<std::byte> encoded(encoded_bytes(encoding, count) + 1, std::byte{0xAB});
    auto expected = snapshot;
    auto expected_bytes = encoded;
    cpu().partition_pack(table_view(), subset, {encoding},
                         with_snapshot ? expected.data() : nullptr,
                         with_encoded ? expected_bytes.data() : nullptr, {});
    cuda()->partition_pack(copy_.view(), subset, {encoding},
                           with_snapshot ? snapshot.data() : nullptr,
                           with_encoded ? encoded.data() : nullptr, {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(snapshot, expected));
    EXPECT_TRUE(same_bits(encoded, expected_bytes));
    EXPECT_TRUE(same_bits(copy_.storage(), table_.storage()));
  }

  ParameterTable table_view() const { return {table_.views(), table_.size()}; }

  Shape shape_ = std::get<0>(GetParam());
  RandomTable table_{shape_.counts(), shape_.granularity, 21};
  backend::Table copy_{table_};
};

TEST_P(CudaPack, LikeTheCpu) {
  for (const uint32_t parts : {1U, 4U}) {
    if (parts > table_.blocks()) continue;
    expect_like_the_cpu(table_.subset(17, parts, parts - 1), true, true);
  }
}

TEST_P(CudaPack, OneOutputOnlyAndNoMoreBlocksThanTheLimit) {
  for (const uint64_t limit : {uint64_t{0}, uint64_t{1}, table_.blocks() / 5}) {
    expect_like_the_cpu(table_.first_blocks(limit + 20, limit), true, false);
    expect_like_the_cpu(table_.first_blocks(limit, limit), false, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaPack,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::Values(Encoding::kFloat32, Encoding::kBfloat16,
                                                          Encoding::kFloat16)));

INSTANTIATE_TEST_SUITE_P(Large, CudaPack, testing::Values(std::tuple(kLarge, Encoding::kBfloat16)));

class CudaApply : public testing::TestWithParam<std::tuple<Shape, Rule>> {
 protected:
  // One application on both tables; some blocks have been visited before.
  void expect_like_the_cpu(const Subset& subset, Encoding encoding, bool with_mirror) {
    const uint64_t count = cpu().subset_elements(table_view(), subset);
    const auto snapshot = array_of(table_.random_values(count));
    const auto mean = array_of(table_.random_values(count));
    Array<std::byte> own(encoded_bytes(encoding, count));
    cpu().quantise(snapshot.data(), count, {encoding}, 0, own.data(), {});
    auto ema = array_of(table_.random_values(table_.elements())), expected_ema = ema;
    Array<uint64_t> visited((table_.blocks() + 63) / 64, 0xF0F0F0F0F0F0F0F0ULL);
    auto expected_visited = visited;
    backend::Table table(table_), expected(table_), mirror(mirror_), expected_mirror(mirror_);
    ApplyArgs args;
    args.rule = std::get<1>(GetParam());
    args.momentum = 0.8F;
    args.scale = 0.9F;
    args.first_visit_full = !with_mirror;
    const bool has_ema = args.rule == Rule::kEma;
    const auto apply = [&](const Table& kernels, const backend::Table& w, Array<float>& e,
                           Array<uint64_t>& bits, const backend::Table& copy) {
      const ParameterTable second = copy.view();
      ApplyArrays arrays = {snapshot.data(), mean.data()};
      arrays.own = lossless(encoding) ? nullptr : own.data();
      arrays.encoding = encoding;
      arrays.ema = has_ema ? e.data() : nullptr;
      arrays.visited = has_ema ? bits.data() : nullptr;
      arrays.mirror = with_mirror ? &second : nullptr;
      kernels.apply(w.view(), subset, args, arrays, {});
    };
    apply(cpu(), expected, expected_ema, expected_visited, expected_mirror);
    apply(*cuda(), table, ema, visited, mirror);
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(table.storage(), expected.storage()));
    EXPECT_TRUE(same_bits(mirror.storage(), expected_mirror.storage()));
    EXPECT_TRUE(same_bits(ema, expected_ema));
    EXPECT_TRUE(same_bits(visited, expected_visited));
  }

  ParameterTable table_view() const { return {table_.views(), table_.size()}; }

  Shape shape_ = std::get<0>(GetParam());
  RandomTable table_{shape_.counts(), shape_.granularity, 23};
  RandomTable mirror_{shape_.counts(), shape_.granularity, 24};
};

TEST_P(CudaApply, LikeTheCpu) {
  const uint32_t parts = table_.blocks() < 3 ? 1 : 3;
  for (const Encoding encoding : {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16}) {
    for (const bool with_mirror : {false, true}) {
      expect_like_the_cpu(table_.subset(18, parts, parts - 1), encoding, with_mirror);
    }
  }
  expect_like_the_cpu(table_.first_blocks(19, table_.blocks() / 4), Encoding::kFloat32, true);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaApply,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::Values(Rule::kAverage, Rule::kDelta,
                                                          Rule::kEma)));

class CudaApplyLarge : public CudaApply {};
TEST_P(CudaApplyLarge, LikeTheCpu) {
  expect_like_the_cpu(table_.subset(18, 1, 0), Encoding::kFloat16, true);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaApplyLarge, testing::Values(std::tuple(kLarge, Rule::kEma)));

}  // namespace
}  // namespace asyncmesh::kernels
