#include "tests/kernels/call_contents.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/top_change.h"

namespace asyncmesh::kernels::backend {
namespace {

float number(Contents contents, uint64_t i, uint64_t count, Random& random) {
  const float value = random.value();
  switch (contents) {
    case Contents::kEqual:
      return 1.5F;
    case Contents::kZero:
      return 0;
    case Contents::kNotFinite:
      return i % 7 == 3   ? std::numeric_limits<float>::quiet_NaN()
             : i % 7 == 5 ? -std::numeric_limits<float>::infinity()
                          : value;
    case Contents::kOneHuge:
      return i == count / 2 ? 30000.0F : 0.0F;
    default:
      return value;
  }
}

std::vector<float> numbers_of(Contents contents, uint64_t count, uint32_t seed) {
  Random random(seed + (contents == Contents::kOther ? 1000U : 0U));
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = number(contents, i, count, random);
  if (contents == Contents::kUnsampled && count > selection::kOpenBelow) {
    for (uint32_t i = 0; i < selection::kSample; ++i) {
      values[selection::sampled_element(count, i)] = static_cast<float>(100 + i % 64);
    }
  }
  return values;
}

std::vector<uint32_t> indices_of(Contents contents, uint64_t count, uint64_t elements) {
  Random random(5 + static_cast<uint64_t>(contents));
  std::vector<uint32_t> indices(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto begin = static_cast<uint32_t>(i * elements / count);
    const auto end = static_cast<uint32_t>((i + 1) * elements / count);
    indices[i] =
        contents == Contents::kZero ? static_cast<uint32_t>(i) : begin + random.below(end - begin);
  }
  return indices;
}

}  // namespace

Fill numbers(uint64_t count, uint32_t seed, Encoding encoding) {
  return [=](std::byte* to, Contents contents) {
    const std::vector<float> values = numbers_of(contents, count, seed);
    cpu().quantise(values.data(), count, {encoding}, 0, to, {});
  };
}
Fill positive_numbers(uint64_t count, uint32_t seed) {
  return [=](std::byte* to, Contents contents) {
    std::vector<float> values = numbers_of(contents, count, seed);
    for (float& value : values) value = std::fabs(value);
    if (count != 0) memcpy(to, values.data(), count * 4);
  };
}
Fill anything(size_t bytes) {
  return [=](std::byte* to, Contents contents) {
    memset(to, 0x13 * (static_cast<int>(contents) + 1), bytes);
  };
}

Fill indices(uint64_t count, uint64_t elements) {
  return [=](std::byte* to, Contents contents) {
    const std::vector<uint32_t> values = indices_of(contents, count, elements);
    memcpy(to, values.data(), count * 4);
  };
}

Agree bitwise(size_t bytes) {
  return
      [=](const std::byte* one, const std::byte* other) { return memcmp(one, other, bytes) == 0; };
}
Agree alike(uint64_t count, Encoding encoding) {
  return [=](const std::byte* one, const std::byte* other) {
    std::vector<float> first(count), second(count);
    cpu().dequantise(one, count, encoding, first.data(), {});
    cpu().dequantise(other, count, encoding, second.data(), {});
    return static_cast<bool>(same_numbers(first, second));
  };
}
Agree near_sums(uint32_t sums) {
  return [=](const std::byte* one, const std::byte* other) {
    std::vector<double> first(sums), second(sums);
    memcpy(first.data(), one, sums * 8);
    memcpy(second.data(), other, sums * 8);
    double scale = 0;
    for (const double sum : second) scale = std::max(scale, std::fabs(sum));
    for (uint32_t i = 0; i < sums; ++i) {
      if (std::isnan(first[i]) && std::isnan(second[i])) continue;
      if (first[i] != second[i] && !(std::fabs(first[i] - second[i]) <= 1e-12 * scale))
        return false;
    }
    return true;
  };
}

}  // namespace asyncmesh::kernels::backend
