// What a mirror receives, of cpu() and of cuda(): from apply, w as the table holds it; from nadamw,
// the new w before it is rounded to its storage. An fp16 table with a bf16 mirror tells them apart.
#include <gtest/gtest.h>

#include <tuple>

#include "kernels/element.h"
#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

using backend::Array;
using backend::kStorages;
using backend::random_values;
using backend::same_bits;

constexpr uint64_t kCount = 4000;

Array<std::byte> stored(const Array<float>& values, Encoding storage) {
  Array<std::byte> bytes(encoded_bytes(storage, values.size()));
  cpu().quantise(values.data(), values.size(), {storage}, 0, bytes.data(), {});
  return bytes;
}
Array<float> loaded(const Array<std::byte>& bytes, Encoding storage) {
  Array<float> values(kCount);
  cpu().dequantise(bytes.data(), kCount, storage, values.data(), {});
  return values;
}

class Mirror : public testing::TestWithParam<std::tuple<const Table*, Encoding, Encoding>> {
 protected:
  // What the mirror holds of `w`, rounded to the table's storage first or not.
  Array<std::byte> mirror_of(const Array<float>& w, bool rounded_first) const {
    const auto [kernels, storage, mirror] = GetParam();
    return stored(rounded_first ? loaded(stored(w, storage), storage) : w, mirror);
  }
  void expect_mirrored(const Array<std::byte>& mirror, const Array<float>& w, bool rounded_first) {
    const auto [kernels, storage, mirror_storage] = GetParam();
    EXPECT_TRUE(same_bits(mirror, mirror_of(w, rounded_first)));
    if (storage == Encoding::kFloat16 && mirror_storage == Encoding::kBfloat16) {
      EXPECT_FALSE(same_bits(mirror, mirror_of(w, !rounded_first)));
    }
  }
};

TEST_P(Mirror, OfApplyIsWhatTheTableHolds) {
  const auto [kernels, storage, mirror_storage] = GetParam();
  const auto w = random_values(kCount, 1), snapshot = random_values(kCount, 2);
  const auto mean = random_values(kCount, 3);
  auto bytes = stored(w, storage), mirror = stored(w, mirror_storage);
  const TensorView tensor = {bytes.data(), kCount, 0}, copy = {mirror.data(), kCount, 0};
  const ParameterTable mirrors = {&copy, 1, mirror_storage};
  ApplyArgs args;
  args.rule = Rule::kDelta;
  ApplyArrays arrays = {snapshot.data(), mean.data()};
  arrays.mirror = &mirrors;
  const auto before = loaded(bytes, storage);
  kernels->apply({&tensor, 1, storage}, {0, (kCount + 63) / 64, 1, 0, 64, UINT64_MAX}, args, arrays,
                 {});
  ASSERT_EQ(backend::finish(), "");
  Array<float> next(kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    next[i] = corrected({0, 1, args.scale}, mean[i], before[i] - snapshot[i]);
  }
  EXPECT_TRUE(same_bits(bytes, stored(next, storage)));
  expect_mirrored(mirror, next, true);
}

TEST_P(Mirror, OfNadamwIsTheNewValueItself) {
  const auto [kernels, storage, mirror_storage] = GetParam();
  auto bytes = stored(random_values(kCount, 1), storage);
  const auto gradient = stored(random_values(kCount, 2), storage);
  auto mirror = stored(random_values(kCount, 3), mirror_storage);
  Array<float> m(kCount, 0.5F), v(kCount, 0.25F);
  NadamwArgs args;
  args.lr = args.gradient_factor = args.momentum_factor = 1e-2;
  auto w = loaded(bytes, storage);
  const auto g = loaded(gradient, storage);
  for (uint64_t i = 0; i < kCount; ++i) {
    float own_m = m[i], own_v = v[i];
    nadamw_element(NadamwFactors(args), w[i], g[i], own_m, own_v);
  }
  kernels->nadamw(
      {bytes.data(), gradient.data(), storage, m.data(), v.data(), mirror.data(), mirror_storage},
      kCount, args, {});
  ASSERT_EQ(backend::finish(), "");
  EXPECT_TRUE(same_bits(bytes, stored(w, storage)));
  expect_mirrored(mirror, w, false);
}

INSTANTIATE_TEST_SUITE_P(Tables, Mirror,
                         testing::Combine(testing::Values(&cpu(), cuda()),
                                          testing::ValuesIn(kStorages),
                                          testing::ValuesIn(kStorages)));

}  // namespace
}  // namespace asyncmesh::kernels
