// Groups of int8 and int4 codes with their scales; back: descale-inl.h.
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_SCALED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_SCALED_INL_H
#undef ASYNCMESH_KERNELS_CPU_SCALED_INL_H
#else
#define ASYNCMESH_KERNELS_CPU_SCALED_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/stochastic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// Four magnitudes, the largest of which is the row's.
template <class D>
HWY_INLINE void store_four(D d, hn::VFromD<D> largest, int32_t* out) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    store_four(half, hn::Max(hn::LowerHalf(half, largest), hn::UpperHalf(half, largest)), out);
    return;
  }
#endif
  hn::StoreU(largest, d, out);
}

HWY_INLINE void largest_of_row(const float* values, int32_t* out) {
  const RowIntTag d;
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < kRowVectors; ++i) {
    const auto bits = hn::BitCast(d, hn::LoadU(RowTag(), values + i * kRowLanes));
    largest = hn::Max(largest, hn::And(bits, hn::Set(d, 0x7FFFFFFF)));
  }
  store_four(d, largest, out);
}

// block_scale for the rows of a group, of which largest_of_row found four values each. Returns
// whether all are finite.
template <Encoding kEncoding>
HWY_INLINE bool scales_of_group(const int32_t* largest, std::byte* scales, float* factors) {
  const RowTag d;
  const RowIntTag di;
  const auto limit = hn::Set(d, static_cast<float>(code_limit(kEncoding)));
  const auto nan = hn::Set(di, static_cast<int32_t>(kNotFiniteScale));
  bool finite = true;
  for (size_t row = 0; row < kRows; row += kRowLanes) {
    hn::VFromD<RowIntTag> a, b, c, e;
    hn::LoadInterleaved4(di, largest + 4 * row, a, b, c, e);
    const auto found = hn::Max(hn::Max(a, b), hn::Max(c, e));
    const auto some =
        hn::Gt(found, hn::Set(di, static_cast<int32_t>(bits_of(kSmallestScaled)) - 1));
    const auto infinite = hn::Gt(found, hn::Set(di, static_cast<int32_t>(kInfinityBits) - 1));
    const auto most =
        hn::BitCast(d, hn::Min(found, hn::Set(di, static_cast<int32_t>(bits_of(kLargestScaled)))));
    const auto scale = hn::IfThenElseZero(some, hn::BitCast(di, hn::Div(most, limit)));
    const auto factor = hn::IfThenElseZero(hn::RebindMask(d, some), hn::Div(limit, most));
    store_bytes(di, hn::IfThenElse(infinite, nan, scale), scales + row * sizeof(float));
    hn::Store(factor, d, factors + row);
    finite = finite && hn::AllFalse(di, infinite);
  }
  return finite;
}

// Two codes of a byte each to one byte, the even one in its low half. D: of the codes.
template <class D>
HWY_INLINE void store_folded(D, hn::VFromD<D> codes, std::byte* out) {
  const hn::Repartition<uint16_t, D> d16;
  const hn::RebindToSigned<decltype(d16)> di16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const auto pair = hn::BitCast(d16, codes);
  const auto even = hn::And(pair, hn::Set(d16, 0x0F));
  const auto odd = hn::And(hn::ShiftRight<4>(pair), hn::Set(d16, 0xF0));
  store_bytes(d8, hn::DemoteTo(d8, hn::BitCast(di16, hn::Or(even, odd))), out);
}

#if HWY_TARGET == HWY_SCALAR

template <Encoding kEncoding, bool kStochastic>
HWY_INLINE void codes_of_row(const float* values, float factor, uint32_t key, std::byte* out) {
  const BlockScale block = {0, factor, true};
  uint8_t codes[kScaled];
  for (uint32_t i = 0; i < kScaled; ++i) {
    codes[i] = static_cast<uint8_t>(
        kStochastic ? code_stochastic(values[i], block, kEncoding, row_bits(key, i))
                    : code_nearest(values[i], block, kEncoding));
  }
  for (uint32_t i = 0; i < kScaled; ++i) {
    if constexpr (kEncoding == Encoding::kInt8) {
      out[i] = std::byte{codes[i]};
    } else if (i % 2 == 0) {
      out[i / 2] = static_cast<std::byte>((codes[i] & 0x0F) | ((codes[i + 1] & 0x0F) << 4));
    }
  }
}

#else

// The codes of vectors 4 * quad .. 4 * quad + 3, as 16-bit lanes in order.
using CodeTag = hn::Repartition<int16_t, RowTag>;
struct Codes {
  hn::VFromD<CodeTag> low, high;
};

// The sum has no bits below 1, so that its low bits are those of the nearest integer.
HWY_INLINE Codes codes_nearest(const float* values, float factor) {
  const RowTag d;
  const CodeTag d16;
  const auto integers = [&](size_t i) HWY_ATTR {
    const auto product = hn::Mul(hn::LoadU(d, values + i * kRowLanes), hn::Set(d, factor));
    return hn::BitCast(d16, hn::Add(product, hn::Set(d, 0x1.8p23F)));
  };
  const auto a = integers(0), b = integers(1), c = integers(2), e = integers(3);
  return {hn::ConcatEven(d16, b, a), hn::ConcatEven(d16, e, c)};
}

template <Encoding kEncoding>
HWY_INLINE Codes codes_stochastic(const float* values, float factor, const RowRandom& random,
                                  size_t first_vector) {
  const RowTag d;
  const RowIntTag di;
  const CodeTag d16;
  const auto scale = hn::Set(d, factor * 0x1p16F);  // exact, so that one product does
  const auto sums = [&](size_t i) HWY_ATTR {
    const auto fixed = nearest(hn::Mul(hn::LoadU(d, values + i * kRowLanes), scale));
    return hn::BitCast(d16, hn::Add(fixed, hn::BitCast(di, random.bits(first_vector + i))));
  };
  const auto clamp = [&](hn::VFromD<CodeTag> code) HWY_ATTR {
    constexpr auto kLimit = static_cast<int16_t>(code_limit(kEncoding));
    return hn::Max(hn::Min(code, hn::Set(d16, kLimit)), hn::Set(d16, int16_t{-kLimit}));
  };
  const auto a = sums(0), b = sums(1), c = sums(2), e = sums(3);
  return {clamp(hn::ConcatOdd(d16, b, a)), clamp(hn::ConcatOdd(d16, e, c))};
}

template <Encoding kEncoding>
HWY_INLINE void store_codes(const Codes& codes, std::byte* out) {
  const hn::Repartition<uint8_t, CodeTag> d8;
  const auto bytes = hn::ConcatEven(d8, hn::BitCast(d8, codes.high), hn::BitCast(d8, codes.low));
  if constexpr (kEncoding == Encoding::kInt8) {
    store_bytes(d8, bytes, out);
  } else {
    store_folded(d8, bytes, out);
  }
}

// Codes of a row whose values are finite.
template <Encoding kEncoding, bool kStochastic>
HWY_INLINE void codes_of_row(const float* values, float factor, uint32_t key, std::byte* out) {
  constexpr size_t kQuadBytes = 4 * kRowLanes / kPerByte<kEncoding>;
  if constexpr (kStochastic) {
    const RowRandom random(key);
    for (size_t i = 0; i < kRowVectors; i += 4) {
      store_codes<kEncoding>(codes_stochastic<kEncoding>(values + i * kRowLanes, factor, random, i),
                             out + i / 4 * kQuadBytes);
    }
  } else {
    for (size_t i = 0; i < kRowVectors; i += 4) {
      store_codes<kEncoding>(codes_nearest(values + i * kRowLanes, factor),
                             out + i / 4 * kQuadBytes);
    }
  }
}

#endif

// One group, of `count` values: kGroup but for the last one of a run. `later` is as many values
// that will be needed some groups from now.
template <Encoding kEncoding, bool kStochastic>
HWY_INLINE void scaled_group(const float* values, size_t count, uint64_t seed, uint64_t first,
                             const float* later, std::byte* out) {
  constexpr size_t kBytes = kRowBytes<kEncoding>;
  constexpr int kOnes = kEncoding == Encoding::kInt4 ? 0x11 : 0x01;
  const size_t whole = count / kScaled, rest = count % kScaled;
  HWY_ALIGN float padded[kScaled];
  HWY_ALIGN int32_t largest[4 * kRows] = {};
  HWY_ALIGN float factors[kRows];
  for (size_t row = 0; row < whole; ++row) {
    largest_of_row(values + row * kScaled, largest + 4 * row);
  }
  if (HWY_UNLIKELY(rest != 0)) {
    padded_row(values + whole * kScaled, rest, padded);
    largest_of_row(padded, largest + 4 * whole);
  }
  const RowKeys keys(seed, first, kStochastic ? kRows : 0);
  const bool finite = scales_of_group<kEncoding>(largest, out, factors);
  const auto encode = [&](const float* row_values, size_t row, std::byte* to) HWY_ATTR {
    if (HWY_UNLIKELY(!finite) && Float32::bits1(out + row * sizeof(float)) == kNotFiniteScale) {
      __builtin_memset(to, kOnes, kBytes);
      return;
    }
    codes_of_row<kEncoding, kStochastic>(row_values, factors[row], keys.of[row], to);
  };
  std::byte* const codes = out + kScaleBytes;
  for (size_t row = 0; row < whole; ++row) {
    prefetch_row(later + row * kScaled);
    encode(values + row * kScaled, row, codes + row * kBytes);
  }
  if (HWY_LIKELY(rest == 0)) return;
  HWY_ALIGN std::byte last[kBytes];
  encode(padded, whole, last);
  // The high half of a byte that has no value is 0, in blocks that are not finite too.
  if (kPerByte<kEncoding> == 2 && rest % 2 != 0) last[rest / 2] &= std::byte{0x0F};
  __builtin_memcpy(codes + whole * kBytes, last,
                   (rest + kPerByte<kEncoding> - 1) / kPerByte<kEncoding>);
}

template <Encoding kEncoding, bool kStochastic>
HWY_NOINLINE void scaled_run(const float* values, uint64_t count, uint64_t seed, uint64_t first,
                             std::byte* out) {
  for (uint64_t i = 0; i < count; i += kGroup) {
    const auto length = static_cast<size_t>(count - i < kGroup ? count - i : kGroup);
    const float* const later = values + i + (count - i > kAhead + kGroup ? kAhead : 0);
    scaled_group<kEncoding, kStochastic>(values + i, length, seed, first + i, later, out);
    out += encoded_bytes(kEncoding, kGroup);
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
