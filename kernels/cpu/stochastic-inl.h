// Random bits of rows of values, and stochastic rounding to 16-bit words.
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_STOCHASTIC_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_STOCHASTIC_INL_H
#undef ASYNCMESH_KERNELS_CPU_STOCHASTIC_INL_H
#else
#define ASYNCMESH_KERNELS_CPU_STOCHASTIC_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/codec-inl.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/random.h"
#include "kernels/scaled.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// To int32, of values that fit: Highway's own conversions spend four operations on those that do
// not. Of others nothing of use; `truncated` takes no negative ones.
HWY_INLINE hn::VFromD<RowIntTag> nearest(RowVector v) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
  return hn::VFromD<RowIntTag>{_mm512_cvtps_epi32(v.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  return hn::VFromD<RowIntTag>{_mm256_cvtps_epi32(v.raw)};
#else
  return hn::NearestInt(v);
#endif
}
HWY_INLINE hn::VFromD<RowIntTag> truncated(RowVector v) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
  return hn::VFromD<RowIntTag>{_mm512_cvttps_epi32(v.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  return hn::VFromD<RowIntTag>{_mm256_cvttps_epi32(v.raw)};
#else
  const RowIntTag di;
  const auto most = hn::Set(di, static_cast<int32_t>(bits_of(0x1p30F)));
  return hn::ConvertTo(di, hn::BitCast(RowTag(), hn::Min(hn::BitCast(di, v), most)));
#endif
}

// The keys of up to a group's rows. Computed together: one after another they would be the longest
// chain of operations in each row.
struct RowKeys {
  // `first` is the number of the first row's first value: a multiple of kScaled.
  HWY_INLINE RowKeys(uint64_t seed, uint64_t first, size_t rows) {
    for (size_t row = 0; row < rows; ++row) of[row] = row_key(seed, first / kScaled + row);
  }

  uint32_t of[kRows];
};

// The random bits of one row.
class RowRandom {
 public:
  HWY_INLINE explicit RowRandom(uint32_t key) {
    for (size_t i = 0; i < kWords; ++i)
      words_[i] = words(key, static_cast<uint32_t>(i * kRowLanes));
  }
  // For the row's vector `i`, 16 bits in each lane.
  HWY_INLINE RowBits bits(size_t i) const {
    const RowBitsTag d;
    return i < kWords ? hn::And(words_[i], hn::Set(d, 0xFFFFU))
                      : hn::ShiftRight<16>(words_[i - kWords]);
  }

 private:
  static constexpr size_t kWords = kRowVectors / 2;

  static HWY_INLINE RowBits words(uint32_t key, uint32_t first) {
    constexpr uint32_t kStep = 0x9E3779B9U;
    const RowBitsTag d;
    auto x = hn::Add(hn::Mul(hn::Iota(d, first), hn::Set(d, kStep)), hn::Set(d, key));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(d, 0x7FEB352DU));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(d, 0x846CA68BU));
    return hn::Xor(x, hn::ShiftRight<16>(x));
  }

  RowBits words_[kWords];
};

// What is computed between two rows would leave the memory at rest: values this far ahead are asked
// for.
inline constexpr uint64_t kAhead = 2 * kGroup;

HWY_INLINE void prefetch_row(const float* values) {
  for (size_t i = 0; i < kScaled; i += 64 / sizeof(float)) {
    prefetch_line(reinterpret_cast<const std::byte*>(values + i));
  }
}

// The values of a row that has only `count`, then zeros.
HWY_INLINE void padded_row(const float* values, size_t count, float* padded) {
  __builtin_memset(padded + count, 0, (kScaled - count) * sizeof(float));
  __builtin_memcpy(padded, values, count * sizeof(float));
}

// How a Format does it: what holds of magnitudes (as bits) up to kPlain, and everything.
template <class Format>
struct Stochastic;

template <>
struct Stochastic<Bfloat16> {
  static constexpr uint32_t kPlain = 0x7F7F0000U;  // above, the sum may reach infinity
  static HWY_INLINE RowBits plain(RowBits bits, RowBits, RowBits random) {
    return hn::ShiftRight<16>(hn::Add(bits, random));
  }
  static HWY_INLINE uint16_t any(float value, uint32_t random) {
    return to_bfloat16_stochastic(value, random);
  }
};

template <>
struct Stochastic<Float16> {
  static constexpr uint32_t kPlain = 0x477FE000U;  // 65,504
  static HWY_INLINE RowBits plain(RowBits bits, RowBits magnitude, RowBits random) {
    const RowTag d;
    const RowBitsTag du;
    const auto fixed = truncated(hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p40F)));
    const auto subnormal = hn::ShiftRight<16>(hn::Add(hn::BitCast(du, fixed), random));
    const auto biased = hn::Sub(magnitude, hn::Set(du, 0x38000000));
    const auto normal = hn::ShiftRight<13>(hn::Add(biased, hn::ShiftRight<3>(random)));
    const auto half = hn::IfThenElse(magnitude_above(du, magnitude, 0x387FFFFF), normal, subnormal);
    return hn::Or(half, hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000)));
  }
  static HWY_INLINE uint16_t any(float value, uint32_t random) {
    return to_float16_stochastic(value, random);
  }
};

template <class Format>
void stochastic_row_of_any(const float* values, uint32_t key, std::byte* out) {
  for (uint32_t i = 0; i < kScaled; ++i) {
    const uint16_t word = Stochastic<Format>::any(values[i], row_bits(key, i));
    __builtin_memcpy(out + i * sizeof(word), &word, sizeof(word));
  }
}

template <class Format, bool kStream>
HWY_INLINE void stochastic_row(const float* values, uint32_t key, std::byte* out) {
  const RowTag d;
  const RowBitsTag du;
  const RowRandom random(key);
  auto largest = hn::Zero(du);
  for (size_t i = 0; i < kRowVectors; ++i) {
    const auto bits = hn::BitCast(du, hn::LoadU(d, values + i * kRowLanes));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
    largest = hn::Max(largest, magnitude);
    store_narrow<kStream>(du, Stochastic<Format>::plain(bits, magnitude, random.bits(i)),
                          out + i * kRowLanes * Format::kBytes);
  }
  if (HWY_LIKELY(hn::AllFalse(du, magnitude_above(du, largest, Stochastic<Format>::kPlain))))
    return;
  stochastic_row_of_any<Format>(values, key, out);
}

template <class Format, bool kStream = false>
HWY_NOINLINE void stochastic_run(const float* values, uint64_t count, uint64_t seed, uint64_t first,
                                 std::byte* out) {
  for (uint64_t group = 0; group < count; group += kGroup) {
    const auto length = static_cast<size_t>(count - group < kGroup ? count - group : kGroup);
    const size_t whole = length / kScaled, rest = length % kScaled;
    const RowKeys keys(seed, first + group, whole + (rest == 0 ? 0 : 1));
    const bool ahead = count - group > kAhead + kGroup;
    for (size_t row = 0; row < whole; ++row) {
      const float* const at = values + group + row * kScaled;
      if (ahead) prefetch_row(at + kAhead);
      stochastic_row<Format, kStream>(at, keys.of[row],
                                      out + (group + row * kScaled) * Format::kBytes);
    }
    if (rest == 0) continue;
    HWY_ALIGN float padded[kScaled];
    HWY_ALIGN std::byte last[kScaled * Format::kBytes];
    padded_row(values + group + whole * kScaled, rest, padded);
    stochastic_row<Format, false>(padded, keys.of[whole], last);
    __builtin_memcpy(out + (group + whole * kScaled) * Format::kBytes, last, rest * Format::kBytes);
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
