#include "kernels/cpu/change_sample.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "kernels/cpu/element_cursor.h"
#include "kernels/cpu/float_environment.h"
#include "kernels/encoding.h"
#include "kernels/random.h"

namespace asyncmesh::kernels {
namespace {

template <Encoding kStorage>
float value_at(const std::byte* at) noexcept {
  if constexpr (kStorage == Encoding::kFloat32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  } else {
    uint16_t word;
    std::memcpy(&word, at, sizeof(word));
    return kStorage == Encoding::kBfloat16 ? from_bfloat16(word) : from_float16(word);
  }
}

// Below `range`.
uint64_t scaled_down(uint64_t random, uint64_t range) noexcept {
  return ((random >> 32) * range) >> 32;
}

template <Encoding kStorage>
void sample_as(const Change& change, uint64_t elements, uint64_t sampled, uint64_t begin,
               uint64_t end, int32_t* sample) noexcept {
  ElementCursor cursor(change.table);
  const int shift = std::countr_zero(sampled);
  for (uint64_t i = begin; i < end; ++i) {
    const uint64_t first = (i * elements) >> shift;
    const uint64_t width = (((i + 1) * elements) >> shift) - first;
    const uint64_t element = first + scaled_down(mix64(i), width);
    cursor.seek(element);
    float score = value_at<kStorage>(cursor.at(element)) - change.reference[element];
    if (change.weight != nullptr) score *= change.weight[element];
    const auto bits = static_cast<int32_t>(bits_of(score) & 0x7FFFFFFFU);
    sample[i] = bits < kScoreLimit ? bits : 0;
  }
}

// The bucket of the rank-th largest; `above` are in higher ones.
uint32_t bucket_of_rank(const uint32_t* histogram, uint64_t rank, uint64_t& above) noexcept {
  above = 0;
  uint32_t bucket = kBuckets - 1;
  for (; bucket != 0 && above + histogram[bucket] < rank; --bucket) above += histogram[bucket];
  return bucket;
}

}  // namespace

double sample_margin(uint64_t sampled, double share) noexcept {
  // Deviations of the binomial distribution, and Bernstein's correction for few successes: a miss
  // in some ten thousand calls.
  constexpr double kDeviations = 4;
  return kDeviations * std::sqrt(static_cast<double>(sampled) * share * (1 - share)) +
         kDeviations * kDeviations / 2;
}

void sample_scores(const Change& change, uint64_t elements, uint64_t sampled, uint64_t begin,
                   uint64_t end, int32_t* sample) noexcept {
  const DefaultFloatEnvironment environment;
  switch (change.table.storage) {
    case Encoding::kBfloat16:
      return sample_as<Encoding::kBfloat16>(change, elements, sampled, begin, end, sample);
    case Encoding::kFloat16:
      return sample_as<Encoding::kFloat16>(change, elements, sampled, begin, end, sample);
    case Encoding::kFloat32:
    case Encoding::kInt8:
    case Encoding::kInt4:
      return sample_as<Encoding::kFloat32>(change, elements, sampled, begin, end, sample);
  }
}

Bracket bracket_of_sample(int32_t* sample, uint64_t sampled, double high_rank, double low_rank,
                          uint32_t* histogram) noexcept {
  const auto high = static_cast<uint64_t>(std::max(0.0, std::floor(high_rank)));
  const auto low = static_cast<uint64_t>(std::ceil(low_rank));
  const Buckets buckets(0, kScoreLimit);
  std::fill_n(histogram, kBuckets, 0);
  for (uint64_t i = 0; i < sampled; ++i) buckets.add(sample[i], histogram);
  // Only the buckets of the two ranks, and those between, are put in order.
  uint64_t above, above_low;
  const uint32_t upper = bucket_of_rank(histogram, std::max<uint64_t>(high, 1), above);
  const uint32_t lower = bucket_of_rank(histogram, std::min(low, sampled), above_low);
  int32_t* kept = sample;
  for (uint64_t i = 0; i < sampled; ++i) {
    const int32_t score = sample[i];
    const uint32_t bucket = static_cast<uint32_t>(score) >> buckets.shift;
    *kept = score;
    kept += bucket >= lower && bucket <= upper ? 1 : 0;
  }
  Bracket bracket;
  int32_t* begin = sample;
  if (high >= 1) {
    int32_t* const nth = sample + (high - 1 - above);
    std::nth_element(begin, nth, kept, std::greater<>());
    bracket.high = *nth;
    begin = nth;
  }
  if (low <= sampled) {
    int32_t* const nth = sample + (low - 1 - above);
    std::nth_element(begin, nth, kept, std::greater<>());
    bracket.low = *nth;
  }
  return bracket;
}

}  // namespace asyncmesh::kernels
