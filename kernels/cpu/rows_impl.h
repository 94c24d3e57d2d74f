// The loops behind rows.h, included by one source per instruction set, each with its own
// ASYNCMESH_ISA. Nothing of std is called here, nor any function that is not always inlined: its
// out-of-line copy would hold instructions that other machines lack.
#pragma once

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "kernels/cpu/rows.h"
#include "kernels/encoding.h"

namespace asyncmesh::kernels::ASYNCMESH_ISA {

// One type per encoding: its wire word, and how one value is read and written. memcpy, because the
// words of a frame need not be aligned.
struct Float32 {
  using Word = uint32_t;
  static constexpr Word kExponent = 0x7F800000U;
  ASYNCMESH_INLINE static float decode(Word word) { return float_of(word); }
  ASYNCMESH_INLINE static Word encode(float value) { return bits_of(value); }
};
struct Bfloat16 {
  using Word = uint16_t;
  static constexpr Word kExponent = 0x7F80U;
  ASYNCMESH_INLINE static float decode(Word word) { return from_bfloat16(word); }
  ASYNCMESH_INLINE static Word encode(float value) { return to_bfloat16(value); }
};
struct Float16 {
  using Word = uint16_t;
  static constexpr Word kExponent = 0x7C00U;
  ASYNCMESH_INLINE static float decode(Word word) { return from_float16(word); }
  ASYNCMESH_INLINE static Word encode(float value) { return to_float16(value); }
};

template <typename Format>
ASYNCMESH_INLINE typename Format::Word load(const std::byte* values, uint64_t i) {
  typename Format::Word word;
  __builtin_memcpy(&word, values + i * sizeof(word), sizeof(word));
  return word;
}

// Converts as many values as come in whole vectors, and returns how many.
template <typename Format>
ASYNCMESH_INLINE uint64_t encode_vectors(const float*, uint64_t, std::byte*) {
  return 0;
}
template <typename Format>
ASYNCMESH_INLINE uint64_t decode_vectors(const std::byte*, uint64_t, float*) {
  return 0;
}
#ifdef __F16C__
template <>
ASYNCMESH_INLINE uint64_t encode_vectors<Float16>(const float* values, uint64_t count,
                                                  std::byte* out) {
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * 2), half);
  }
  return i;
}
template <>
ASYNCMESH_INLINE uint64_t decode_vectors<Float16>(const std::byte* values, uint64_t count,
                                                  float* out) {
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + i * 2));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
  }
  return i;
}
#endif

template <typename Format>
void encode_as(const float* __restrict values, uint64_t count, std::byte* __restrict out) {
  for (uint64_t i = encode_vectors<Format>(values, count, out); i < count; ++i) {
    const typename Format::Word word = Format::encode(values[i]);
    __builtin_memcpy(out + i * sizeof(word), &word, sizeof(word));
  }
}

template <typename Format>
void decode_as(const std::byte* __restrict values, uint64_t count, float* __restrict out) {
  for (uint64_t i = decode_vectors<Format>(values, count, out); i < count; ++i) {
    out[i] = Format::decode(load<Format>(values, i));
  }
}

template <typename Format>
bool all_finite_as(const std::byte* values, uint64_t count) {
  constexpr uint64_t kTile = 4096;  // a bad contribution is given up early
  for (uint64_t begin = 0; begin < count; begin += kTile) {
    const uint64_t end = count - begin < kTile ? count : begin + kTile;
    uint32_t bad = 0;
    for (uint64_t i = begin; i < end; ++i) {
      bad |= (load<Format>(values, i) & Format::kExponent) == Format::kExponent ? 1U : 0U;
    }
    if (bad != 0) return false;
  }
  return true;
}

template <bool kFirst>
ASYNCMESH_INLINE void add_term(float& sum, float weight, float value) {
  const float term = weight * value;
  sum = kFirst ? term : sum + term;
}

template <typename Format, bool kFirst>
void accumulate_as(const std::byte* __restrict values, uint64_t count, float weight,
                   float* __restrict sum) {
  for (uint64_t i = 0; i < count; ++i) {
    add_term<kFirst>(sum[i], weight, Format::decode(load<Format>(values, i)));
  }
}

// By way of a buffer, since only whole vectors are decoded fast.
template <bool kFirst>
void accumulate_float16(const std::byte* __restrict values, uint64_t count, float weight,
                        float* __restrict sum) {
  constexpr uint64_t kTile = 256;
  float decoded[kTile];
  for (uint64_t begin = 0; begin < count; begin += kTile) {
    const uint64_t length = count - begin < kTile ? count - begin : kTile;
    decode_as<Float16>(values + begin * sizeof(uint16_t), length, decoded);
    for (uint64_t i = 0; i < length; ++i) add_term<kFirst>(sum[begin + i], weight, decoded[i]);
  }
}

static void encode(const float* values, uint64_t count, Encoding encoding, std::byte* out) {
  switch (encoding) {
    case Encoding::kFloat32:
      return encode_as<Float32>(values, count, out);
    case Encoding::kBfloat16:
      return encode_as<Bfloat16>(values, count, out);
    case Encoding::kFloat16:
      return encode_as<Float16>(values, count, out);
    case Encoding::kInt8:
    case Encoding::kInt4:
      return;
  }
}

static void decode(const std::byte* values, uint64_t count, Encoding encoding, float* out) {
  switch (encoding) {
    case Encoding::kFloat32:
      return decode_as<Float32>(values, count, out);
    case Encoding::kBfloat16:
      return decode_as<Bfloat16>(values, count, out);
    case Encoding::kFloat16:
      return decode_as<Float16>(values, count, out);
    case Encoding::kInt8:
    case Encoding::kInt4:
      return;
  }
}

static bool all_finite(const std::byte* values, uint64_t count, Encoding encoding) {
  switch (encoding) {
    case Encoding::kFloat32:
      return all_finite_as<Float32>(values, count);
    case Encoding::kBfloat16:
      return all_finite_as<Bfloat16>(values, count);
    case Encoding::kFloat16:
      return all_finite_as<Float16>(values, count);
    case Encoding::kInt8:
    case Encoding::kInt4:
      break;
  }
  return false;
}

template <bool kFirst>
void accumulate(const std::byte* values, uint64_t count, Encoding encoding, float weight,
                float* sum) {
  switch (encoding) {
    case Encoding::kFloat32:
      return accumulate_as<Float32, kFirst>(values, count, weight, sum);
    case Encoding::kBfloat16:
      return accumulate_as<Bfloat16, kFirst>(values, count, weight, sum);
    case Encoding::kFloat16:
      return accumulate_float16<kFirst>(values, count, weight, sum);
    case Encoding::kInt8:
    case Encoding::kInt4:
      return;
  }
}

static void multiply(float* values, uint64_t count, float factor) {
  for (uint64_t i = 0; i < count; ++i) values[i] *= factor;
}

enum class Step { kNone, kDrift, kEma, kFirstEma };

template <bool kLossy, Step kStep>
void apply_as(const ApplyRow& row, const ApplyFactors factors) {
  float* __restrict const w = row.w;
  float* __restrict const ema = row.ema;
  const float* __restrict const snapshot = row.snapshot;
  const float* __restrict const mean = row.mean;
  const float* __restrict const own = row.own;
  for (uint64_t i = 0; i < row.count; ++i) {
    const float target = kLossy ? lossy_target(snapshot[i], mean[i], own[i]) : mean[i];
    const float drift = w[i] - snapshot[i];
    if constexpr (kStep == Step::kNone) {
      w[i] = target;
    } else if constexpr (kStep == Step::kDrift) {
      w[i] = corrected(factors, target, drift);
    } else {
      const float next =
          kStep == Step::kFirstEma ? ema_first(factors, drift) : ema_next(factors, ema[i], drift);
      ema[i] = next;
      w[i] = corrected(factors, target, next);
    }
  }
}

template <bool kLossy>
void apply_rule(const ApplyRow& row, Rule rule, const ApplyFactors& factors) {
  switch (rule) {
    case Rule::kAverage:
      return apply_as<kLossy, Step::kNone>(row, factors);
    case Rule::kDelta:
      return apply_as<kLossy, Step::kDrift>(row, factors);
    case Rule::kEma:
      return row.first_visit ? apply_as<kLossy, Step::kFirstEma>(row, factors)
                             : apply_as<kLossy, Step::kEma>(row, factors);
  }
}

static void apply(const ApplyRow& row, Rule rule, const ApplyFactors& factors) {
  return row.own != nullptr ? apply_rule<true>(row, rule, factors)
                            : apply_rule<false>(row, rule, factors);
}

template <bool kMirror>
void nadamw_as(const NadamwRow& row, const NadamwFactors factors) {
  float* __restrict const w = row.w;
  float* __restrict const m = row.m;
  float* __restrict const v = row.v;
  float* __restrict const mirror = row.mirror;
  const float* __restrict const gradient = row.gradient;
  for (uint64_t i = 0; i < row.count; ++i) {
    nadamw_element(factors, w[i], gradient[i], m[i], v[i]);
    if constexpr (kMirror) mirror[i] = w[i];
  }
}

static void nadamw(const NadamwRow& row, const NadamwFactors& factors) {
  return row.mirror != nullptr ? nadamw_as<true>(row, factors) : nadamw_as<false>(row, factors);
}

// Sixteen partial sums, folded in halves: an order that every vector width can keep. A square of an
// fp32 is exact in double. Tiles keep the partial sums of a long run small.
static double sum_of_squares(const float* values, uint64_t count) {
  constexpr uint64_t kLanes = 16, kTile = 1U << 16;
  double total = 0;
  for (uint64_t begin = 0; begin < count; begin += kTile) {
    const uint64_t length = count - begin < kTile ? count - begin : kTile;
    const float* tile = values + begin;
    double sums[kLanes] = {};
    uint64_t i = 0;
    for (; i + kLanes <= length; i += kLanes) {
      for (uint64_t lane = 0; lane < kLanes; ++lane) {
        const auto value = static_cast<double>(tile[i + lane]);
        sums[lane] += value * value;
      }
    }
    for (uint64_t lane = 0; i < length; ++i, ++lane) {
      const auto value = static_cast<double>(tile[i]);
      sums[lane] += value * value;
    }
    for (uint64_t half = kLanes / 2; half != 0; half /= 2) {
      for (uint64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    total += sums[0];
  }
  return total;
}

constexpr Rows make_rows(const char* isa) {
  return {isa,      encode, decode, all_finite,    accumulate<true>, accumulate<false>,
          multiply, apply,  nadamw, sum_of_squares};
}

}  // namespace asyncmesh::kernels::ASYNCMESH_ISA
