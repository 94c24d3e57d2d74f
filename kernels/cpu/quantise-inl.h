// Runs of values from and to every encoding of wire.h, for buffers in the cache: what quantise,
// partition_pack and average are made of. Bit for bit what kernels/scaled.h says of one value.
//
//   quantise_run     values, at most a group if the caller wants it, to wire bytes
//   dequantise_run   any range of an encoded run that starts at a multiple of kScaled
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_QUANTISE_INL_H_
#undef ASYNCMESH_KERNELS_CPU_QUANTISE_INL_H_
#else
#define ASYNCMESH_KERNELS_CPU_QUANTISE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/codec-inl.h"
#include "kernels/random.h"
#include "kernels/scaled.h"
#include "kernels/wire.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// At most 16 lanes, so that half a row of kScaled values is a whole number of vectors.
using RowTag = hn::CappedTag<float, 16>;

// The random words of one row, vector by vector.
class RowRandom {
 public:
  using Tag = hn::RebindToUnsigned<RowTag>;
  using Vector = hn::VFromD<Tag>;

  // `first` is the number of the row's first value: a multiple of kScaled.
  HWY_INLINE RowRandom(uint64_t seed, uint64_t first) : key_(row_key(seed, first / kScaled)) {}

  // Words word, word + 1, ...: the low halves belong to these values of the row, the high halves to
  // those half a row later.
  HWY_INLINE Vector words(uint32_t word) const {
    constexpr uint32_t kStep = 0x9E3779B9U;
    const Tag d;
    auto x = hn::Mul(hn::Iota(d, word), hn::Set(d, kStep));
    x = hn::Add(x, hn::Set(d, key_));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(d, 0x7FEB352DU));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(d, 0x846CA68BU));
    return hn::Xor(x, hn::ShiftRight<16>(x));
  }

 private:
  uint32_t key_;
};

HWY_INLINE RowRandom::Vector low_half(RowRandom::Vector words) {
  return hn::And(words, hn::Set(RowRandom::Tag(), 0xFFFFU));
}
HWY_INLINE RowRandom::Vector high_half(RowRandom::Vector words) {
  return hn::ShiftRight<16>(words);
}

// ---- 16-bit words, rounded stochastically ----

// Words of `v` in lanes of 32 bits.
template <class Format>
HWY_INLINE RowRandom::Vector stochastic_words(hn::VFromD<RowTag> v, RowRandom::Vector random);

template <>
HWY_INLINE RowRandom::Vector stochastic_words<Bfloat16>(hn::VFromD<RowTag> v,
                                                        RowRandom::Vector random) {
  const RowRandom::Tag du;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
  const auto rounded = hn::Min(hn::ShiftRight<16>(hn::Add(magnitude, random)), hn::Set(du, 0x7F7F));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000));
  return hn::IfThenElse(magnitude_above(du, magnitude, kInfinityBits - 1),
                        Bfloat16::words(RowTag(), v), hn::Or(rounded, sign));
}

template <>
HWY_INLINE RowRandom::Vector stochastic_words<Float16>(hn::VFromD<RowTag> v,
                                                       RowRandom::Vector random) {
  const RowTag d;
  const RowRandom::Tag du;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
  const auto fixed =
      hn::Mul(hn::BitCast(d, hn::Min(magnitude, hn::Set(du, 0x38800000))), hn::Set(d, 0x1p40F));
  const auto subnormal =
      hn::Add(hn::BitCast(du, hn::ConvertTo(hn::RebindToSigned<RowTag>(), fixed)), random);
  const auto normal =
      hn::Add(hn::Sub(magnitude, hn::Set(du, 0x38000000)), hn::ShiftRight<3>(random));
  auto half = hn::IfThenElse(magnitude_above(du, magnitude, 0x387FFFFF), hn::ShiftRight<13>(normal),
                             hn::ShiftRight<16>(subnormal));
  half = hn::Min(half, hn::Set(du, 0x7BFF));
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3FF));
  const auto nan = hn::Or(payload, hn::Set(du, 0x7E00));
  half =
      hn::IfThenElse(magnitude_above(du, magnitude, kInfinityBits - 1), hn::Set(du, 0x7C00), half);
  half = hn::IfThenElse(magnitude_above(du, magnitude, kInfinityBits), nan, half);
  return hn::Or(half, hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000)));
}

template <class Format>
HWY_INLINE void stochastic_row(const float* values, const RowRandom& random, std::byte* out) {
  const RowTag d;
  const RowRandom::Tag du;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kHalf = kScaled / 2;
  for (size_t i = 0; i < kHalf; i += lanes) {
    const auto words = random.words(static_cast<uint32_t>(i));
    store_narrow(du, stochastic_words<Format>(hn::LoadU(d, values + i), low_half(words)),
                 out + i * Format::kBytes);
    store_narrow(du, stochastic_words<Format>(hn::LoadU(d, values + kHalf + i), high_half(words)),
                 out + (kHalf + i) * Format::kBytes);
  }
}

// ---- scaled codes ----

// Bits of the largest magnitude of a row.
HWY_INLINE uint32_t largest_of_row(const float* values) {
  const RowTag d;
  const hn::RebindToSigned<RowTag> di;
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  auto largest = hn::Zero(di);
  for (size_t i = 0; i < kScaled; i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, hn::LoadU(d, values + i)), magnitude));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

// NearestInt, which HWY_SCALAR rounds in two steps.
HWY_INLINE hn::VFromD<hn::RebindToSigned<RowTag>> nearest_integers(hn::VFromD<RowTag> v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(hn::RebindToSigned<RowTag>(), nearest_integer(hn::GetLane(v)));
#else
  return hn::NearestInt(v);
#endif
}

// Codes of a row whose values are finite.
template <Encoding kEncoding, bool kStochastic>
HWY_INLINE void codes_of_row(const float* values, float factor, const RowRandom* random,
                             int8_t* codes) {
  const RowTag d;
  const hn::RebindToSigned<RowTag> di;
  const hn::Rebind<int8_t, RowTag> d8;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kHalf = kScaled / 2;
  if constexpr (!kStochastic) {
    const auto scale = hn::Set(d, factor);
    for (size_t i = 0; i < kScaled; i += lanes) {
      const auto code = nearest_integers(hn::Mul(hn::LoadU(d, values + i), scale));
      hn::StoreU(hn::DemoteTo(d8, code), d8, codes + i);
    }
  } else {
    const auto scale = hn::Set(d, factor * 0x1p16F);  // exact: scaled.h's two products
    const auto most = hn::Set(di, code_limit(kEncoding));
    const auto least = hn::Set(di, -code_limit(kEncoding));
    const auto round = [&](const float* at, RowRandom::Vector bits) HWY_ATTR {
      const auto fixed = nearest_integers(hn::Mul(hn::LoadU(d, at), scale));
      const auto code = hn::ShiftRight<16>(hn::Add(fixed, hn::BitCast(di, bits)));
      return hn::DemoteTo(d8, hn::Max(hn::Min(code, most), least));
    };
    for (size_t i = 0; i < kHalf; i += lanes) {
      const auto words = random->words(static_cast<uint32_t>(i));
      hn::StoreU(round(values + i, low_half(words)), d8, codes + i);
      hn::StoreU(round(values + kHalf + i, high_half(words)), d8, codes + kHalf + i);
    }
  }
}

// Two codes to a byte, the even one in the low half.
HWY_INLINE void fold_codes(const int8_t* codes, std::byte* out) {
  const hn::CappedTag<uint16_t, 32> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  for (size_t i = 0; i < kScaled / 2; i += hn::Lanes(d16)) {
    const auto pair = load_bytes(d16, reinterpret_cast<const std::byte*>(codes + 2 * i));
    const auto even = hn::And(pair, hn::Set(d16, 0x0F));
    const auto odd = hn::And(hn::ShiftRight<4>(pair), hn::Set(d16, 0xF0));
    const auto both = hn::BitCast(hn::RebindToSigned<decltype(d16)>(), hn::Or(even, odd));
    store_bytes(d8, hn::DemoteTo(d8, both), out + i);
  }
}

HWY_INLINE void unfold_codes(const std::byte* from, int8_t* codes) {
  const hn::CappedTag<uint16_t, 32> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  for (size_t i = 0; i < kScaled / 2; i += hn::Lanes(d16)) {
    const auto both = hn::PromoteTo(d16, load_bytes(d8, from + i));
    // Bytes low and high of each lane, as unsigned halves; then their sign.
    const auto halves = hn::And(hn::Or(both, hn::ShiftLeft<4>(both)), hn::Set(d16, 0x0F0F));
    const auto sign = hn::And(halves, hn::Set(d16, 0x0808));
    const auto extended = hn::Or(halves, hn::Mul(hn::ShiftRight<3>(sign), hn::Set(d16, 0xF0)));
    store_bytes(d16, extended, reinterpret_cast<std::byte*>(codes + 2 * i));
  }
}

// One row of codes at `out`; returns the bits of its scale.
template <Encoding kEncoding, bool kStochastic>
HWY_INLINE uint32_t scaled_row(const float* values, const Wire& wire, uint64_t first,
                               std::byte* out) {
  HWY_ALIGN int8_t folded[kScaled];
  int8_t* const codes = kEncoding == Encoding::kInt8 ? reinterpret_cast<int8_t*>(out) : folded;
  const BlockScale block = block_scale(largest_of_row(values), kEncoding);
  if (HWY_UNLIKELY(!block.finite)) {
    __builtin_memset(codes, 1, kScaled);
  } else if constexpr (kStochastic) {
    const RowRandom random(wire.seed, first);
    codes_of_row<kEncoding, true>(values, block.factor, &random, codes);
  } else {
    codes_of_row<kEncoding, false>(values, block.factor, nullptr, codes);
  }
  if constexpr (kEncoding == Encoding::kInt4) fold_codes(codes, out);
  return block.scale;
}

// `values` of a row that has only `count`; the others are 0.
HWY_INLINE void padded_row(const float* values, size_t count, float* padded) {
  __builtin_memset(padded + count, 0, (kScaled - count) * sizeof(float));
  __builtin_memcpy(padded, values, count * sizeof(float));
}

template <Encoding kEncoding, bool kStochastic>
HWY_INLINE void scaled_run(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                           std::byte* out) {
  constexpr size_t kPerByte = kEncoding == Encoding::kInt4 ? 2 : 1;
  for (uint64_t group = 0; group < count; group += kGroup) {
    uint32_t scales[kGroup / kScaled] = {};
    const uint64_t length = count - group < kGroup ? count - group : kGroup;
    std::byte* const codes = out + kScaleBytes;
    for (uint64_t row = 0; row < length; row += kScaled) {
      const float* const at = values + group + row;
      std::byte* const to = codes + row / kPerByte;
      const uint64_t number = first + group + row;
      if (HWY_LIKELY(length - row >= kScaled)) {
        scales[row / kScaled] = scaled_row<kEncoding, kStochastic>(at, wire, number, to);
      } else {
        const auto rest = static_cast<size_t>(length - row);
        HWY_ALIGN float padded[kScaled];
        HWY_ALIGN std::byte last[kScaled];
        padded_row(at, rest, padded);
        scales[row / kScaled] = scaled_row<kEncoding, kStochastic>(padded, wire, number, last);
        // The high half of a byte that has no value is 0, in blocks that are not finite too.
        if (kPerByte == 2 && rest % 2 != 0) last[rest / 2] &= std::byte{0x0F};
        __builtin_memcpy(to, last, (rest + kPerByte - 1) / kPerByte);
      }
    }
    __builtin_memcpy(out, scales, sizeof(scales));
    out = codes + kGroup / kPerByte;
  }
}

template <class Format>
HWY_INLINE void stochastic_run(const float* values, uint64_t count, const Wire& wire,
                               uint64_t first, std::byte* out) {
  uint64_t i = 0;
  for (; i + kScaled <= count; i += kScaled) {
    stochastic_row<Format>(values + i, RowRandom(wire.seed, first + i), out + i * Format::kBytes);
  }
  if (i < count) {
    HWY_ALIGN float padded[kScaled];
    HWY_ALIGN std::byte last[kScaled * Format::kBytes];
    const auto rest = static_cast<size_t>(count - i);
    padded_row(values + i, rest, padded);
    stochastic_row<Format>(padded, RowRandom(wire.seed, first + i), last);
    __builtin_memcpy(out + i * Format::kBytes, last, rest * Format::kBytes);
  }
}

// values[0, count) as `wire` says. `first` is the number of values[0] in the whole run: a multiple
// of kGroup for scaled encodings (`out` then starts a group), of kScaled for stochastic rounding.
HWY_INLINE void quantise_run(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                             std::byte* out) {
  const bool stochastic = wire.rounding == Rounding::kStochastic;
  switch (wire.encoding) {
    case Encoding::kFloat32:
      __builtin_memcpy(out, values, count * sizeof(float));
      return;
    case Encoding::kBfloat16:
      return stochastic ? stochastic_run<Bfloat16>(values, count, wire, first, out)
                        : encode_run<Bfloat16>(values, count, out);
    case Encoding::kFloat16:
      return stochastic ? stochastic_run<Float16>(values, count, wire, first, out)
                        : encode_run<Float16>(values, count, out);
    case Encoding::kInt8:
      return stochastic ? scaled_run<Encoding::kInt8, true>(values, count, wire, first, out)
                        : scaled_run<Encoding::kInt8, false>(values, count, wire, first, out);
    case Encoding::kInt4:
      return stochastic ? scaled_run<Encoding::kInt4, true>(values, count, wire, first, out)
                        : scaled_run<Encoding::kInt4, false>(values, count, wire, first, out);
  }
}

// ---- the way back ----

HWY_INLINE void decode_row(const int8_t* codes, float scale, float* out) {
  const RowTag d;
  const hn::RebindToSigned<RowTag> di;
  const hn::Rebind<int8_t, RowTag> d8;
  const auto factor = hn::Set(d, scale);
  for (size_t i = 0; i < kScaled; i += hn::Lanes(d)) {
    const auto code = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, codes + i)));
    hn::StoreU(hn::Mul(factor, code), d, out + i);
  }
}

template <Encoding kEncoding>
HWY_INLINE void descale_run(const std::byte* encoded, uint64_t first, uint64_t count, float* out) {
  constexpr size_t kPerByte = kEncoding == Encoding::kInt4 ? 2 : 1;
  constexpr size_t kGroupBytes = kScaleBytes + kGroup / kPerByte;
  for (uint64_t i = 0; i < count; i += kScaled) {
    const uint64_t value = first + i;
    const std::byte* const group = encoded + value / kGroup * kGroupBytes;
    const auto in_group = static_cast<size_t>(value % kGroup);
    const float scale = Float32::load1(group + in_group / kScaled * sizeof(float));
    const std::byte* codes = group + kScaleBytes + in_group / kPerByte;
    const uint64_t length = count - i < kScaled ? count - i : kScaled;
    HWY_ALIGN std::byte last[kScaled];
    HWY_ALIGN float padded[kScaled];
    if (HWY_UNLIKELY(length < kScaled)) {
      __builtin_memset(last, 0, sizeof(last));
      __builtin_memcpy(last, codes, (length + kPerByte - 1) / kPerByte);
      codes = last;
    }
    float* const to = HWY_LIKELY(length == kScaled) ? out + i : padded;
    if constexpr (kEncoding == Encoding::kInt4) {
      HWY_ALIGN int8_t unfolded[kScaled];
      unfold_codes(codes, unfolded);
      decode_row(unfolded, scale, to);
    } else {
      decode_row(reinterpret_cast<const int8_t*>(codes), scale, to);
    }
    if (HWY_UNLIKELY(length < kScaled)) __builtin_memcpy(out + i, padded, length * sizeof(float));
  }
}

// Values [first, first + count) of the run encoded at `encoded`. For scaled encodings `first` is a
// multiple of kScaled.
HWY_INLINE void dequantise_run(const std::byte* encoded, Encoding encoding, uint64_t first,
                               uint64_t count, float* out) {
  switch (encoding) {
    case Encoding::kFloat32:
      __builtin_memcpy(out, encoded + first * Float32::kBytes, count * Float32::kBytes);
      return;
    case Encoding::kBfloat16:
      return decode_run<Bfloat16>(encoded + first * Bfloat16::kBytes, count, out);
    case Encoding::kFloat16:
      return decode_run<Float16>(encoded + first * Float16::kBytes, count, out);
    case Encoding::kInt8:
      return descale_run<Encoding::kInt8>(encoded, first, count, out);
    case Encoding::kInt4:
      return descale_run<Encoding::kInt4>(encoded, first, count, out);
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
