// Groups of int8 and int4 codes with their scales, decoded; there: scaled-inl.h.
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_DESCALE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_DESCALE_INL_H
#undef ASYNCMESH_KERNELS_CPU_DESCALE_INL_H
#else
#define ASYNCMESH_KERNELS_CPU_DESCALE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/codec-inl.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/wire.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

HWY_INLINE void unfold_codes(const std::byte* from, int8_t* codes) {
  const hn::CappedTag<uint16_t, 32> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  for (size_t i = 0; i < kScaled / 2; i += hn::Lanes(d16)) {
    const auto both = hn::PromoteTo(d16, load_bytes(d8, from + i));
    // A half in each byte of a lane; then the signs of both.
    const auto halves = hn::And(hn::Or(both, hn::ShiftLeft<4>(both)), hn::Set(d16, 0x0F0F));
    const auto signs = hn::ShiftRight<3>(hn::And(halves, hn::Set(d16, 0x0808)));
    const auto extended = hn::Or(halves, hn::Mul(signs, hn::Set(d16, 0xF0)));
    store_bytes(d16, extended, reinterpret_cast<std::byte*>(codes + 2 * i));
  }
}

// The values of one row, of which there are as many bytes of codes as it takes. Vectors come with
// their lanes in an order that is the same for all rows: in_order() mends that, also of sums.
template <Encoding kEncoding>
class RowDecoder {
 public:
  HWY_INLINE RowDecoder(const std::byte* codes, float scale)
      : codes_(reinterpret_cast<const int8_t*>(codes)), scale_(hn::Set(RowTag(), scale)) {}
  static HWY_INLINE RowVector in_order(RowVector v) { return v; }
  // Vector `i` of kRowVectors.
  HWY_INLINE RowVector vector(size_t i) const {
    const RowTag d;
    const hn::RebindToSigned<RowTag> di;
    const hn::Rebind<int8_t, RowTag> d8;
    const auto code = hn::PromoteTo(di, hn::LoadU(d8, codes_ + i * kRowLanes));
    return hn::Mul(scale_, hn::ConvertTo(d, code));
  }

 private:
  const int8_t* codes_;
  RowVector scale_;
};

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3

// All 16 values that a code of the row can have, looked up.
template <>
class RowDecoder<Encoding::kInt4> {
 public:
  HWY_INLINE RowDecoder(const std::byte* codes, float scale)
      : codes_(codes),
        values_(_mm512_mul_ps(_mm512_set1_ps(scale), _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7,
                                                                    -6, -5, -4, -3, -2, -1))) {}
  HWY_INLINE RowVector vector(size_t i) const {
    // The first 8 codes in the even lanes, the others in the odd ones, each shifted to the lowest 4
    // bits of its lane: those that the lookup takes.
    const auto bytes = load_bytes(hn::CappedTag<uint64_t, 1>(), codes_ + i * kRowLanes / 2);
    const auto codes = _mm512_srlv_epi32(
        _mm512_broadcastq_epi64(bytes.raw),
        _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28));
    return RowVector{_mm512_permutexvar_ps(codes, values_)};
  }
  static HWY_INLINE RowVector in_order(RowVector v) {
    return RowVector{_mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15), v.raw)};
  }
  // Those of weight x value from now on.
  HWY_INLINE void weigh(RowVector weight) { values_ = _mm512_mul_ps(weight.raw, values_); }

 private:
  const std::byte* codes_;
  __m512 values_;
};

#else

template <>
class RowDecoder<Encoding::kInt4> {
 public:
  HWY_INLINE RowDecoder(const std::byte* codes, float scale)
      : row_(reinterpret_cast<const std::byte*>(codes_), scale) {
    unfold_codes(codes, codes_);
  }
  RowDecoder(const RowDecoder&) = delete;
  RowDecoder& operator=(const RowDecoder&) = delete;
  static HWY_INLINE RowVector in_order(RowVector v) { return v; }
  HWY_INLINE RowVector vector(size_t i) const { return row_.vector(i); }

 private:
  HWY_ALIGN int8_t codes_[kScaled];
  RowDecoder<Encoding::kInt8> row_;
};

#endif

// weight x value, of the values of a row; lanes as RowDecoder's.
template <Encoding kEncoding>
class RowTerms {
 public:
  HWY_INLINE RowTerms(const std::byte* codes, float scale, float weight)
      : row_(codes, scale), weight_(hn::Set(RowTag(), weight)) {
    if constexpr (kLookup) row_.weigh(weight_);
  }
  HWY_INLINE RowVector vector(size_t i) const {
    if constexpr (kLookup) return row_.vector(i);
    return hn::Mul(weight_, row_.vector(i));
  }

 private:
  static constexpr bool kLookup =
      HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3 && kEncoding == Encoding::kInt4;

  RowDecoder<kEncoding> row_;
  RowVector weight_;
};

template <Encoding kEncoding, bool kStream>
HWY_INLINE void descale_row(const std::byte* codes, float scale, float* out) {
  const RowDecoder<kEncoding> row(codes, scale);
  for (size_t i = 0; i < kRowVectors; ++i) {
    Float32::store<kStream>(RowTag(), row.in_order(row.vector(i)),
                            reinterpret_cast<std::byte*>(out + i * kRowLanes));
  }
}

// The first `count` values of a row, in a buffer for a whole one.
template <Encoding kEncoding>
HWY_INLINE void descale_part(const std::byte* codes, float scale, size_t count, float* row) {
  HWY_ALIGN std::byte all[kRowBytes<kEncoding>] = {};
  __builtin_memcpy(all, codes, (count + kPerByte<kEncoding> - 1) / kPerByte<kEncoding>);
  descale_row<kEncoding, false>(all, scale, row);
}

template <Encoding kEncoding, bool kStream = false>
HWY_INLINE void descale_run(const std::byte* encoded, uint64_t first, uint64_t count, float* out) {
  while (count != 0) {
    const std::byte* const group = encoded + first / kGroup * kGroupBytes<kEncoding>;
    const auto row = static_cast<size_t>(first % kGroup / kScaled);
    const auto some = static_cast<size_t>(HWY_MIN(count, kGroup - row * kScaled));
    const std::byte* scale = group + row * sizeof(float);
    const std::byte* codes = group + kScaleBytes + row * kRowBytes<kEncoding>;
    float* const end = out + some / kScaled * kScaled;
    for (; out != end; out += kScaled, scale += sizeof(float), codes += kRowBytes<kEncoding>) {
      descale_row<kEncoding, kStream>(codes, Float32::load1(scale), out);
    }
    if (const size_t rest = some % kScaled; rest != 0) {
      HWY_ALIGN float last[kScaled];
      descale_part<kEncoding>(codes, Float32::load1(scale), rest, last);
      __builtin_memcpy(out, last, rest * sizeof(float));
      return;
    }
    first += some;
    count -= some;
  }
}

// The values of one row and of the next, kScaled from value `skip` of the first on. The next one's
// codes follow, or kNewGroup: are in the group after it. int4: `skip` is even.
template <Encoding kEncoding, bool kStream, bool kNewGroup>
HWY_INLINE void descale_two_rows(const std::byte* group, size_t row, size_t skip, std::byte* out) {
  const RowTag d;
  const RowIntTag di;
  const std::byte* const next_group = group + (kNewGroup ? kGroupBytes<kEncoding> : 0);
  const size_t next_row = kNewGroup ? 0 : row + 1;
  const auto scale = hn::Set(d, Float32::load1(group + row * sizeof(float)));
  const auto next_scale = hn::Set(d, Float32::load1(next_group + next_row * sizeof(float)));
  // Both as if they had all the codes: those before and behind are left out below.
  const RowDecoder<kEncoding> codes(
      group + kScaleBytes + (row * kScaled + skip) / kPerByte<kEncoding>, 1.0F);
  const RowDecoder<kEncoding> next_codes(next_group + kScaleBytes +
                                             (next_row * kScaled + skip) / kPerByte<kEncoding> -
                                             kRowBytes<kEncoding>,
                                         1.0F);
  const auto end = hn::Set(di, static_cast<int32_t>(kScaled - skip));
  for (size_t i = 0; i < kRowVectors; ++i) {
    const auto lane = hn::Iota(di, static_cast<int32_t>(i * kRowLanes));
    const auto in_row = hn::RebindMask(d, hn::Lt(lane, end));
    auto code = codes.in_order(codes.vector(i));
    if constexpr (kNewGroup) {
      code = hn::IfThenElse(in_row, code, next_codes.in_order(next_codes.vector(i)));
    }
    Float32::store<kStream>(d, hn::Mul(hn::IfThenElse(in_row, scale, next_scale), code),
                            out + i * kRowLanes * sizeof(float));
  }
}

// kScaled values of a run from number `first` on. kRow: a row. int4: `first` is even.
template <Encoding kEncoding, bool kRow, bool kStream>
HWY_INLINE void descale_piece(const std::byte* encoded, uint64_t first, std::byte* out) {
  const std::byte* const group = encoded + first / kGroup * kGroupBytes<kEncoding>;
  const auto row = static_cast<size_t>(first % kGroup / kScaled);
  if constexpr (kRow) {
    descale_row<kEncoding, kStream>(group + kScaleBytes + row * kRowBytes<kEncoding>,
                                    Float32::load1(group + row * sizeof(float)),
                                    reinterpret_cast<float*>(out));
  } else if (HWY_LIKELY(row + 1 != kRows)) {
    descale_two_rows<kEncoding, kStream, false>(group, row, first % kScaled, out);
  } else {
    descale_two_rows<kEncoding, kStream, true>(group, row, first % kScaled, out);
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
