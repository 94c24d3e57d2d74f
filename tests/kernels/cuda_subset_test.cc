// partition_pack, partition_unpack and apply of cuda() against those of cpu(), bitwise.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

using backend::Array;
using backend::finish;
using backend::kEncodings;
using backend::kStorages;
using backend::Layout;
using backend::random_values;
using backend::same_bits;

struct Shape {
  const char* name;
  std::vector<uint64_t> (*counts)();
  uint32_t granularity;
  Layout layout;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

std::vector<uint64_t> one() { return {0, 1, 0}; }
std::vector<uint64_t> odd() { return {3, 1, 0, 777, 13}; }
std::vector<uint64_t> whole() { return {640, 64, 0, 1024, 6400}; }
std::vector<uint64_t> large() { return {5, 140007, 1}; }
std::vector<uint64_t> random_counts() {
  backend::Random random(77);
  std::vector<uint64_t> counts;
  for (int i = 0; i < 60; ++i) counts.push_back(random.below(300));
  return counts;
}
std::vector<uint64_t> many_whole() {
  std::vector<uint64_t> counts = backend::many_counts();
  for (uint64_t& count : counts) count = (count + 63) / 64 * 64;
  return counts;
}

const Shape kShapes[] = {{"one", one, 64, Layout::kOdd},
                         {"odd1", odd, 1, Layout::kAligned},
                         {"odd7", odd, 7, Layout::kOdd},
                         {"random1", random_counts, 1, Layout::kOdd},
                         {"random64", random_counts, 64, Layout::kAligned},
                         {"whole64", whole, 64, Layout::kAligned},
                         {"whole64odd", whole, 64, Layout::kOdd},
                         {"whole128", whole, 128, Layout::kAligned},
                         {"many64", backend::many_counts, 64, Layout::kAligned},
                         {"many3", backend::many_counts, 3, Layout::kOdd},
                         {"manywhole64", many_whole, 64, Layout::kAligned},
                         {"many5000", backend::many_counts, 5000, Layout::kAligned}};
// More rows than the executor's largest grid has places for.
const Shape kLarge = {"large8", large, 8, Layout::kAligned};

// Bytes by which buffers are off the alignment that four values at a time need; in every second
// test.
size_t skew_of(Encoding encoding, bool odd) {
  return odd && !scaled(encoding) ? encoded_bytes(encoding, 1) : 0;
}

backend::Table table_of(const Shape& shape, Encoding storage, uint64_t seed) {
  return {shape.counts(), shape.granularity, storage, shape.layout, seed};
}

class CudaPack : public testing::TestWithParam<std::tuple<Shape, Encoding>> {
 protected:
  void expect_like_the_cpu(const Subset& subset, const Wire& wire, bool with_snapshot,
                           bool with_encoded) {
    const uint64_t count = cpu().subset_elements(table_.view(), subset);
    ASSERT_EQ(cuda()->subset_elements(table_.view(), subset), count);
    Array<float> snapshot(count + 2, 12345.0F);
    const size_t skew = skew_of(wire.encoding);
    Array<std::byte> encoded(encoded_bytes(wire.encoding, count) + 1 + skew, std::byte{0xAB});
    auto expected = snapshot;
    auto expected_bytes = encoded;
    const auto pack = [&](const Table& kernels, Array<float>& values, Array<std::byte>& bytes) {
      kernels.partition_pack(table_.view(), subset, wire,
                             with_snapshot ? values.data() + skew % 3 : nullptr,
                             with_encoded ? bytes.data() + skew : nullptr, {});
    };
    pack(cpu(), expected, expected_bytes);
    pack(*cuda(), snapshot, encoded);
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(snapshot, expected));
    EXPECT_TRUE(same_bits(encoded, expected_bytes)) << static_cast<int>(wire.encoding);
    EXPECT_TRUE(same_bits(table_.bytes(), before_.bytes()));
    expect_unpack_like_the_cpu(subset, wire.encoding, expected_bytes);
  }

  void expect_unpack_like_the_cpu(const Subset& subset, Encoding encoding,
                                  const Array<std::byte>& bytes) {
    backend::Table target(other_), expected(other_);
    const std::byte* const from = bytes.data() + skew_of(encoding);
    cpu().partition_unpack(expected.view(), subset, encoding, from, {});
    cuda()->partition_unpack(target.view(), subset, encoding, from, {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(target.bytes(), expected.bytes())) << static_cast<int>(encoding);
  }

  // The snapshot is off by one value with fp32 and by two with 16 bits.
  static size_t skew_of(Encoding encoding) {
    return kernels::skew_of(encoding, std::get<1>(GetParam()) == Encoding::kFloat16);
  }

  backend::Table table_ = table_of(std::get<0>(GetParam()), std::get<1>(GetParam()), 21);
  backend::Table before_{table_};
  backend::Table other_ = table_of(std::get<0>(GetParam()), std::get<1>(GetParam()), 22);
};

TEST_P(CudaPack, AndUnpackLikeTheCpu) {
  const uint32_t parts = table_.blocks() < 4 ? 1 : 4;
  for (const Encoding encoding : kEncodings) {
    expect_like_the_cpu(table_.subset(17, parts, parts - 1), {encoding}, true, true);
  }
}

TEST_P(CudaPack, RoundsStochasticallyLikeTheCpu) {
  const Subset subset = table_.subset(0, 1, 0);
  for (const Encoding encoding : {Encoding::kBfloat16, Encoding::kInt8, Encoding::kInt4}) {
    const Wire wire = {encoding, Rounding::kStochastic, 0x1234567890ULL};
    expect_like_the_cpu(subset, wire, false, true);
  }
}

TEST_P(CudaPack, OneOutputOnlyAndNoMoreBlocksThanTheLimit) {
  for (const uint64_t limit : {uint64_t{0}, uint64_t{1}, table_.blocks() / 5}) {
    expect_like_the_cpu(table_.first_blocks(limit + 20, limit), {}, true, false);
    expect_like_the_cpu(table_.first_blocks(limit, limit), {Encoding::kInt4}, false, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaPack,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::ValuesIn(kStorages)));

class CudaPackLarge : public CudaPack {};
TEST_P(CudaPackLarge, LikeTheCpu) {
  expect_like_the_cpu(table_.subset(17, 1, 0), {Encoding::kInt8}, true, true);
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudaPackLarge,
                         testing::Values(std::tuple(kLarge, Encoding::kBfloat16)));

// A row with a value that is not finite decodes to NaN, the others are as before.
TEST(CudaPackNotFinite, LikeTheCpu) {
  const Shape shape = {"", whole, 64, Layout::kAligned};
  backend::Table table = table_of(shape, Encoding::kFloat32, 5);
  table.set(70, INFINITY);
  table.set(2000, NAN);
  const uint64_t count = table.elements();
  for (const Encoding encoding : kEncodings) {
    Array<std::byte> bytes(encoded_bytes(encoding, count)), expected = bytes;
    cpu().partition_pack(table.view(), table.subset(3, 1, 0), {encoding}, nullptr, expected.data(),
                         {});
    cuda()->partition_pack(table.view(), table.subset(3, 1, 0), {encoding}, nullptr, bytes.data(),
                           {});
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(bytes, expected));
  }
}

class CudaApply : public testing::TestWithParam<std::tuple<Shape, Rule>> {
 protected:
  struct Case {
    Encoding storage, encoding, mirror;
    bool with_mirror;
    uint64_t skew = 0;  // values by which snapshot, mean, own and ema are off
  };

  // One application on both tables; some blocks have been visited before.
  void expect_like_the_cpu(const Case& of, uint64_t limit) {
    const Shape& shape = std::get<0>(GetParam());
    backend::Table table = table_of(shape, of.storage, 23), expected(table);
    backend::Table mirror = table_of(shape, of.mirror, 24), expected_mirror(mirror);
    Subset subset = table.subset(18, table.blocks() < 3 ? 1 : 3, 0);
    subset.limit = limit;
    const uint64_t count = cpu().subset_elements(table.view(), subset);
    const auto snapshot = random_values(count + 4, 1), mean = random_values(count + 4, 2);
    const size_t skew = skew_of(of.encoding, of.skew == 1);
    Array<std::byte> own(encoded_bytes(of.encoding, count) + skew);
    cpu().quantise(snapshot.data(), count, {of.encoding}, 0, own.data() + skew, {});
    auto ema = random_values(table.elements() + 4, 3), expected_ema = ema;
    Array<uint64_t> visited((table.blocks() + 63) / 64, 0xF0F0F0F0F0F0F0F0ULL);
    auto expected_visited = visited;
    ApplyArgs args;
    args.rule = std::get<1>(GetParam());
    args.momentum = 0.8F;
    args.scale = 0.9F;
    args.first_visit_full = !of.with_mirror;
    const auto apply = [&](const Table& kernels, const backend::Table& w, Array<float>& e,
                           Array<uint64_t>& bits, const backend::Table& copy) {
      const ParameterTable second = copy.view();
      ApplyArrays arrays = {snapshot.data() + of.skew / 3 % 2, mean.data() + of.skew / 4};
      arrays.own = lossless(of.encoding) ? nullptr : own.data() + skew;
      arrays.encoding = of.encoding;
      arrays.ema = args.rule == Rule::kEma ? e.data() + of.skew / 2 % 2 : nullptr;
      arrays.visited = args.rule == Rule::kEma ? bits.data() : nullptr;
      arrays.mirror = of.with_mirror ? &second : nullptr;
      kernels.apply(w.view(), subset, args, arrays, {});
    };
    apply(cpu(), expected, expected_ema, expected_visited, expected_mirror);
    apply(*cuda(), table, ema, visited, mirror);
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(table.bytes(), expected.bytes()));
    EXPECT_TRUE(same_bits(mirror.bytes(), expected_mirror.bytes()));
    EXPECT_TRUE(same_bits(ema, expected_ema));
    EXPECT_TRUE(same_bits(visited, expected_visited));
  }
};

TEST_P(CudaApply, LikeTheCpu) {
  for (const Encoding encoding : kEncodings) {
    expect_like_the_cpu({Encoding::kFloat32, encoding, Encoding::kBfloat16, true}, UINT64_MAX);
  }
  expect_like_the_cpu({Encoding::kBfloat16, Encoding::kInt8, Encoding::kFloat16, true}, UINT64_MAX);
  expect_like_the_cpu({Encoding::kFloat16, Encoding::kFloat32, Encoding::kFloat32, false}, 5);
  expect_like_the_cpu({Encoding::kFloat32, Encoding::kFloat32, Encoding::kFloat32, false}, 7);
}

// Each array by itself off its alignment.
TEST_P(CudaApply, OfUnalignedArraysLikeTheCpu) {
  for (const uint64_t skew : {1, 2, 3, 4}) {
    expect_like_the_cpu({Encoding::kFloat32, Encoding::kFloat16, Encoding::kFloat32, true, skew},
                        UINT64_MAX);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaApply,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::Values(Rule::kAverage, Rule::kDelta,
                                                          Rule::kEma)));

class CudaApplyLarge : public CudaApply {};
TEST_P(CudaApplyLarge, LikeTheCpu) {
  expect_like_the_cpu({Encoding::kFloat32, Encoding::kFloat16, Encoding::kBfloat16, true},
                      UINT64_MAX);
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudaApplyLarge, testing::Values(std::tuple(kLarge, Rule::kEma)));

}  // namespace
}  // namespace asyncmesh::kernels
