// nadamw, look_ahead, nesterov and table_ema against loops over the elements: bitwise on every
// instruction set and for any number of threads, and within rounding of double arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "every_target.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/element.h"
#include "kernels/encoding.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels {
namespace {

constexpr Encoding kStorages[] = {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16};
constexpr uint64_t kCounts[] = {0, 1, 3, 15, 16, 17, 63, 1000, 4097};

// An array in a table's storage, at an odd multiple of its element's size.
class Stored {
 public:
  Stored(Encoding storage, const std::vector<float>& values)
      : storage_(storage), bytes_(encoded_bytes(storage, values.size() + 1)) {
    for (uint64_t i = 0; i < values.size(); ++i) set(i, values[i]);
  }
  void* data() { return bytes_.data() + encoded_bytes(storage_, 1); }
  float operator[](uint64_t i) const {
    const std::byte* const at = bytes_.data() + encoded_bytes(storage_, i + 1);
    uint16_t word = 0;
    float value = 0;
    if (lossless(storage_)) {
      std::memcpy(&value, at, sizeof(value));
      return value;
    }
    std::memcpy(&word, at, sizeof(word));
    return storage_ == Encoding::kBfloat16 ? from_bfloat16(word) : from_float16(word);
  }
  void set(uint64_t i, float value) {
    std::byte* const at = bytes_.data() + encoded_bytes(storage_, i + 1);
    if (lossless(storage_)) {
      std::memcpy(at, &value, sizeof(value));
      return;
    }
    const uint16_t word = storage_ == Encoding::kBfloat16 ? to_bfloat16(value) : to_float16(value);
    std::memcpy(at, &word, sizeof(word));
  }
  bool operator==(const Stored& other) const { return same_bits(bytes_, other.bytes_); }

 private:
  Encoding storage_;
  std::vector<std::byte> bytes_;
};

class Numbers {
 public:
  std::vector<float> normal(uint64_t count, float scale = 1.0F) {
    std::vector<float> values(count);
    for (float& value : values) value = scale * normal_(generator_);
    return values;
  }

 private:
  std::mt19937_64 generator_{17};
  std::normal_distribution<float> normal_;
};

struct NadamwState {
  Stored w, gradient;
  std::vector<float> m, v;
  Stored mirror;

  NadamwArrays arrays(Encoding storage, Encoding mirror_storage, bool mirrored) {
    return {w.data(),      gradient.data(), storage,
            m.data(),      v.data(),        mirrored ? mirror.data() : nullptr,
            mirror_storage};
  }
  void step(const NadamwArgs& args, bool mirrored) {
    const NadamwFactors factors(args);
    for (uint64_t i = 0; i < m.size(); ++i) {
      float value = w[i];
      nadamw_element(factors, value, gradient[i], m[i], v[i]);
      w.set(i, value);
      if (mirrored) mirror.set(i, value);
    }
  }
  bool operator==(const NadamwState& other) const {
    return w == other.w && mirror == other.mirror && same_bits(m, other.m) && same_bits(v, other.v);
  }
};

NadamwState nadamw_state(Numbers& numbers, uint64_t count, Encoding storage,
                         Encoding mirror_storage) {
  auto v = numbers.normal(count);
  for (float& value : v) value *= value;
  return {Stored(storage, numbers.normal(count)), Stored(storage, numbers.normal(count, 0.1F)),
          numbers.normal(count, 0.1F), v, Stored(mirror_storage, numbers.normal(count))};
}

NadamwArgs usual() {
  NadamwArgs args;
  args.lr = 1e-3;
  args.weight_decay = 0.1;
  args.gradient_scale = 0.3;
  args.gradient_factor = 1e-3;
  args.momentum_factor = 2e-3;
  args.variance_factor = 1.25;
  return args;
}

TEST(DenseKernels, NadamwIsItsElementInEveryStorage) {
  Numbers numbers;
  on_every_target([&] {
    for (const Encoding storage : kStorages) {
      for (const Encoding mirror_storage : kStorages) {
        for (const uint64_t count : kCounts) {
          const bool mirrored = count % 2 == 1 || storage != mirror_storage;
          auto state = nadamw_state(numbers, count, storage, mirror_storage);
          auto expected = state;
          for (int step = 0; step < 3; ++step) {
            cpu().nadamw(state.arrays(storage, mirror_storage, mirrored), count, usual(), {});
            expected.step(usual(), mirrored);
          }
          ASSERT_TRUE(state == expected) << static_cast<int>(storage) << ' ' << count;
        }
      }
    }
  });
}

TEST(DenseKernels, NadamwIsItsElementForAnyBits) {
  std::mt19937 generator(5);
  std::vector<float> values[4];
  for (auto& array : values) {
    for (int i = 0; i < 3001; ++i) array.push_back(float_of(static_cast<uint32_t>(generator())));
  }
  for (float& value : values[3]) value = std::abs(value);
  on_every_target([&] {
    auto w = values[0], m = values[1], v = values[3];
    NadamwArrays arrays = {w.data(), values[2].data(), Encoding::kFloat32, m.data(), v.data()};
    cpu().nadamw(arrays, w.size(), usual(), {});
    const NadamwFactors factors(usual());
    for (uint64_t i = 0; i < w.size(); ++i) {
      float element = values[0][i], moment = values[1][i], variance = values[3][i];
      nadamw_element(factors, element, values[2][i], moment, variance);
      ASSERT_EQ(std::isnan(w[i]), std::isnan(element)) << i;
      if (!std::isnan(element)) {
        ASSERT_EQ(bits_of(w[i]), bits_of(element)) << i;
      }
    }
  });
}

struct Point {
  std::vector<float> w, previous, gradient, average;
};

Point point(Numbers& numbers, uint64_t count) {
  return {numbers.normal(count), numbers.normal(count), numbers.normal(count, 0.1F),
          numbers.normal(count)};
}

TEST(DenseKernels, LookAheadIsItsElement) {
  Numbers numbers;
  on_every_target([&] {
    for (const uint64_t count : kCounts) {
      const Point p = point(numbers, count);
      std::vector<float> ahead(count);
      cpu().look_ahead(p.w.data(), p.previous.data(), count, 0.9F, ahead.data(), {});
      for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(bits_of(ahead[i]), bits_of(looked_ahead(0.9F, p.w[i], p.previous[i])));
        const double w = p.w[i], previous = p.previous[i];
        const double exact = w + static_cast<double>(0.9F) * (w - previous);
        ASSERT_NEAR(static_cast<double>(ahead[i]), exact,
                    3e-7 * (std::abs(w) + std::abs(previous)));
      }
    }
  });
}

TEST(DenseKernels, LookAheadPastTheCachesIsTheSame) {
  constexpr uint64_t kCount = (uint64_t{8} << 20) + 5;  // what streaming.h holds for large
  const std::vector<float> w(kCount, 1.5F), previous(kCount, 1.25F);
  std::vector<float> memory(kCount + 16);
  float* const aligned =
      memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64 / sizeof(float);
  cpu().look_ahead(w.data(), previous.data(), kCount, 0.5F, aligned, {});
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(aligned[i], 1.625F) << i;
}

TEST(DenseKernels, NesterovIsItsElement) {
  Numbers numbers;
  on_every_target([&] {
    for (const uint64_t count : kCounts) {
      const Point p = point(numbers, count);
      auto w = p.w, previous = p.previous;
      cpu().nesterov(w.data(), previous.data(), p.gradient.data(), count, 0.9F, 0.05F, {});
      ASSERT_TRUE(same_bits(previous, p.w));
      const NesterovFactors factors(0.9F, 0.05F);
      for (uint64_t i = 0; i < count; ++i) {
        const float next = nesterov_element(factors, p.w[i], p.previous[i], p.gradient[i]);
        ASSERT_EQ(bits_of(w[i]), bits_of(next));
        const double gamma = 0.9F, lr = 0.05F, old = p.w[i], before = p.previous[i];
        const double exact = old + gamma * (old - before) - lr * (1 - gamma) * p.gradient[i];
        ASSERT_NEAR(static_cast<double>(w[i]), exact, 4e-7 * (std::abs(old) + std::abs(before)));
      }
    }
  });
}

// Tensors of all sizes, each in memory of its own.
class Tensors {
 public:
  Tensors(Encoding storage, const std::vector<uint64_t>& counts, Numbers& numbers)
      : storage_(storage) {
    for (const uint64_t count : counts) {
      const auto values = numbers.normal(count);
      arrays_.emplace_back(storage, values);
      for (uint64_t i = 0; i < count; ++i) flat_.push_back(arrays_.back()[i]);
    }
    uint64_t block = 0;
    for (size_t t = 0; t < counts.size(); ++t) {
      views_.push_back({arrays_[t].data(), counts[t], block});
      block += (counts[t] + 63) / 64;
    }
  }
  ParameterTable table() const {
    return {views_.data(), static_cast<uint32_t>(views_.size()), storage_};
  }
  const std::vector<float>& flat() const { return flat_; }

 private:
  Encoding storage_;
  std::vector<Stored> arrays_;
  std::vector<TensorView> views_;
  std::vector<float> flat_;
};

std::vector<uint64_t> awkward() {
  std::vector<uint64_t> counts = {0, 1, 0, 17, 64, 5000, 0};
  for (uint64_t i = 0; i < 200; ++i) counts.push_back(i * 31 % 97);
  counts.push_back(70000);
  return counts;
}

TEST(DenseKernels, TableEmaIsItsElementInEveryStorage) {
  Numbers numbers;
  ThreadTeam team(3);
  for (const Encoding storage : kStorages) {
    const Tensors tensors(storage, awkward(), numbers);
    const auto before = numbers.normal(tensors.flat().size());
    const AverageFactors factors(0.999F);
    std::vector<float> expected;
    for (uint64_t i = 0; i < before.size(); ++i) {
      expected.push_back(averaged_element(factors, before[i], tensors.flat()[i]));
    }
    on_every_target([&] {
      for (Workers* workers : {static_cast<Workers*>(nullptr), static_cast<Workers*>(&team)}) {
        auto average = before;
        cpu().table_ema(tensors.table(), 0.999F, average.data(), {workers});
        ASSERT_TRUE(same_bits(average, expected));
      }
    });
  }
}

TEST(DenseKernels, TableEmaOfNothing) {
  cpu().table_ema({}, 0.5F, nullptr, {});
  const TensorView empty;
  cpu().table_ema({&empty, 1, Encoding::kFloat32}, 0.5F, nullptr, {});
}

TEST(DenseKernels, ThreadsDoNotShow) {
  Numbers numbers;
  constexpr uint64_t kCount = 200003;
  const auto state = nadamw_state(numbers, kCount, Encoding::kFloat32, Encoding::kBfloat16);
  const Point p = point(numbers, kCount);
  auto one = state;
  cpu().nadamw(one.arrays(Encoding::kFloat32, Encoding::kBfloat16, true), kCount, usual(), {});
  auto w_one = p.w, previous_one = p.previous, ahead_one = p.w;
  cpu().nesterov(w_one.data(), previous_one.data(), p.gradient.data(), kCount, 0.9F, 0.05F, {});
  cpu().look_ahead(p.w.data(), p.previous.data(), kCount, 0.9F, ahead_one.data(), {});
  for (const uint32_t size : {1U, 2U, 3U}) {
    ThreadTeam team(size);
    auto many = state;
    cpu().nadamw(many.arrays(Encoding::kFloat32, Encoding::kBfloat16, true), kCount, usual(),
                 {&team});
    EXPECT_TRUE(many == one);
    auto w = p.w, previous = p.previous, ahead = p.w;
    cpu().nesterov(w.data(), previous.data(), p.gradient.data(), kCount, 0.9F, 0.05F, {&team});
    cpu().look_ahead(p.w.data(), p.previous.data(), kCount, 0.9F, ahead.data(), {&team});
    EXPECT_TRUE(same_bits(w, w_one) && same_bits(previous, previous_one));
    EXPECT_TRUE(same_bits(ahead, ahead_one));
  }
}

long double squares(const std::vector<float>& values) {
  long double sum = 0;
  for (const float value : values) sum += static_cast<long double>(value) * value;
  return sum;
}

TEST(SumOfSquares, IsRepeatableOnEveryTargetAndForAnyThreads) {
  Numbers numbers;
  for (const uint64_t count : {0, 1, 15, 16, 17, 65535, 65536, 65537, 600001}) {
    const auto values = numbers.normal(count + 1);
    std::vector<double> first;
    on_every_target([&] {
      for (const uint32_t size : {1U, 2U, 3U}) {
        ThreadTeam team(size);
        std::vector<double> sums(kSumSlots, -1);
        cpu().sum_of_squares(values.data() + 1, count, sums.data(), {&team});
        if (first.empty()) first = sums;
        ASSERT_EQ(sums, first) << count;
      }
    });
    const long double expected = squares({values.begin() + 1, values.end()});
    EXPECT_NEAR(first[0], static_cast<double>(expected), 1e-12 * static_cast<double>(expected));
  }
}

TEST(SumOfSquares, TellsThatAValueIsNotFinite) {
  std::vector<float> values(1000, 1.0F);
  double sums[kSumSlots];
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    values[777] = bad;
    cpu().sum_of_squares(values.data(), values.size(), sums, {});
    EXPECT_FALSE(std::isfinite(sums[0]));
  }
  values[777] = 3e38F;  // a square beyond fp32
  cpu().sum_of_squares(values.data(), values.size(), sums, {});
  EXPECT_NEAR(sums[0], 9e76, 1e70);
}

Comparison plain_comparison(const std::vector<float>& a, const std::vector<float>& b) {
  long double distance = 0, dot = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<long double>(a[i]), y = static_cast<long double>(b[i]);
    distance += (x - y) * (x - y);
    dot += x * y;
  }
  return {static_cast<double>(distance), static_cast<double>(dot), static_cast<double>(squares(a)),
          static_cast<double>(squares(b))};
}

TEST(Compare, IsRepeatableAndWithinRoundingInEveryStorage) {
  Numbers numbers;
  for (const Encoding first : kStorages) {
    for (const Encoding second : kStorages) {
      const Tensors a(first, awkward(), numbers), b(second, awkward(), numbers);
      std::vector<double> found;
      on_every_target([&] {
        for (const uint32_t size : {1U, 2U, 3U}) {
          ThreadTeam team(size);
          std::vector<double> sums(kSumSlots, -1);
          cpu().compare(a.table(), b.table(), sums.data(), {&team});
          if (found.empty()) found = sums;
          ASSERT_EQ(sums, found);
        }
      });
      const Comparison expected = plain_comparison(a.flat(), b.flat());
      const double bound = 1e-12 * expected.first;
      EXPECT_NEAR(found[0], expected.squared_distance, bound);
      EXPECT_NEAR(found[1], expected.dot, bound);
      EXPECT_NEAR(found[2], expected.first, bound);
      EXPECT_NEAR(found[3], expected.second, bound);
    }
  }
}

TEST(Compare, OfATableWithItself) {
  Numbers numbers;
  const Tensors tensors(Encoding::kFloat32, {300000, 1, 300000}, numbers);
  double sums[kSumSlots];
  cpu().compare(tensors.table(), tensors.table(), sums, {});
  EXPECT_EQ(sums[0], 0.0);
  EXPECT_EQ(sums[1], sums[2]);
  EXPECT_EQ(sums[1], sums[3]);
}

TEST(Compare, OfNothing) {
  double sums[kSumSlots];
  cpu().compare({}, {}, sums, {});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(sums[i], 0.0);
}

}  // namespace
}  // namespace asyncmesh::kernels
