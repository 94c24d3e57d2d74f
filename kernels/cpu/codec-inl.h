// Vectors of floats from and to fp32, bf16 and fp16 words at any address: bit for bit what
// kernels/encoding.h says of one value, on every target, also where the caller flushes subnormals
// to zero.
//
//   Float32, Bfloat16, Float16    a Format each; with_format calls a visitor with the one of an
//                                 Encoding
//   Format::load(d, at)           a vector of d (a tag of floats) from consecutive words
//   Format::store(d, v, at)       and back, rounded to nearest
//   Format::load1, store1         one value
//   decode_run, encode_run        any number of values
//
// Included once per target, from sources that use hwy/foreach_target.h.
#if defined(ASYNCMESH_KERNELS_CPU_CODEC_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_CODEC_INL_H
#undef ASYNCMESH_KERNELS_CPU_CODEC_INL_H
#else
#define ASYNCMESH_KERNELS_CPU_CODEC_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/encoding.h"
#include "kernels/wire.h"

// F16C agrees with encoding.h in every bit and in how it treats subnormals; other machines take the
// integer way.
#undef ASYNCMESH_HAVE_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define ASYNCMESH_HAVE_F16C 1
#else
#define ASYNCMESH_HAVE_F16C 0
#endif

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The scalar target reads through a typed pointer, which has to be aligned.
template <class D>
HWY_INLINE hn::VFromD<D> load_bytes(D d, const std::byte* at) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  T lane;
  __builtin_memcpy(&lane, at, sizeof(lane));
  return hn::Set(d, lane);
#else
  return hn::LoadU(d, reinterpret_cast<const T*>(at));
#endif
}

// kStream: past the caches, to an address that is aligned to the vector.
template <bool kStream = false, class D>
HWY_INLINE void store_bytes([[maybe_unused]] D d, hn::VFromD<D> v, std::byte* at) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  const T lane = hn::GetLane(v);
  __builtin_memcpy(at, &lane, sizeof(lane));
#else
  if constexpr (kStream && sizeof(T) * hn::MaxLanes(D()) >= 16) {
    hn::Stream(v, d, reinterpret_cast<T*>(at));
  } else {
    hn::StoreU(v, d, reinterpret_cast<T*>(at));
  }
#endif
}

// 16-bit words of lanes that hold no more than 16 bits. d: of the lanes.
template <bool kStream = false, class D>
HWY_INLINE void store_narrow([[maybe_unused]] D d, hn::VFromD<D> lanes, std::byte* at) {
  const hn::Rebind<uint16_t, D> d16;
#if HWY_TARGET == HWY_SCALAR
  store_bytes<kStream>(d16, hn::Set(d16, static_cast<uint16_t>(hn::GetLane(lanes))), at);
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  store_bytes<kStream>(d16, hn::TruncateTo(d16, lanes), at);
#else
  store_bytes<kStream>(d16, hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D>(), lanes)), at);
#endif
}

// Compared as integers: no flush-to-zero, no trap. Bit 31 of both must be clear.
template <class D>
HWY_INLINE auto magnitude_above(D d, hn::VFromD<D> bits, uint32_t bound) {
  const hn::RebindToSigned<D> di;
  return hn::RebindMask(d, hn::Gt(hn::BitCast(di, bits), hn::Set(di, static_cast<int32_t>(bound))));
}

struct Float32 {
  static constexpr size_t kBytes = 4;
  static constexpr uint32_t kExponent = 0x7F800000U;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const std::byte* at) {
    return load_bytes(d, at);
  }
  template <bool kStream = false, class D>
  static HWY_INLINE void store(D d, hn::VFromD<D> v, std::byte* at) {
    store_bytes<kStream>(d, v, at);
  }
  static HWY_INLINE uint32_t bits1(const std::byte* at) {
    uint32_t word;
    __builtin_memcpy(&word, at, sizeof(word));
    return word;
  }
  static HWY_INLINE float load1(const std::byte* at) { return float_of(bits1(at)); }
  static HWY_INLINE void store1(float value, std::byte* at) {
    const uint32_t word = bits_of(value);
    __builtin_memcpy(at, &word, sizeof(word));
  }
};

struct Bfloat16 {
  static constexpr size_t kBytes = 2;
  static constexpr uint32_t kExponent = 0x7F80U;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const std::byte* at) {
    const hn::Rebind<uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, load_bytes(d16, at))));
  }
  // The words, in lanes of 32 bits.
  template <class D>
  static HWY_INLINE hn::VFromD<hn::RebindToUnsigned<D>> words(D, hn::VFromD<D> v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto carry = hn::Add(hn::And(upper, hn::Set(du, 1)), hn::Set(du, 0x7FFF));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, carry));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    return hn::IfThenElse(nan, hn::Or(upper, hn::Set(du, 0x40)), rounded);
  }
  template <bool kStream = false, class D>
  static HWY_INLINE void store(D d, hn::VFromD<D> v, std::byte* at) {
    store_narrow<kStream>(hn::RebindToUnsigned<D>(), words(d, v), at);
  }
  static HWY_INLINE float load1(const std::byte* at) {
    uint16_t word;
    __builtin_memcpy(&word, at, sizeof(word));
    return from_bfloat16(word);
  }
  static HWY_INLINE void store1(float value, std::byte* at) {
    const uint16_t word = to_bfloat16(value);
    __builtin_memcpy(at, &word, sizeof(word));
  }
};

struct Float16 {
  static constexpr size_t kBytes = 2;
  static constexpr uint32_t kExponent = 0x7C00U;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const std::byte* at) {
#if ASYNCMESH_HAVE_F16C
    const hn::Rebind<uint16_t, D> d16;
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::BitCast(dh, load_bytes(d16, at)));
#else
    const hn::Rebind<uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    const auto word = hn::PromoteTo(du, load_bytes(d16, at));
    const auto exponent = hn::And(word, hn::Set(du, 0x7C00));
    const auto shifted = hn::ShiftLeft<13>(hn::And(word, hn::Set(du, 0x7FFF)));
    const auto least = hn::Set(du, 0x38800000);  // 2^-14
    const auto small =
        hn::BitCast(du, hn::Sub(hn::BitCast(d, hn::Or(least, shifted)), hn::BitCast(d, least)));
    const auto quiet = hn::IfThenZeroElse(hn::Eq(hn::And(word, hn::Set(du, 0x3FF)), hn::Zero(du)),
                                          hn::Set(du, 0x400000));
    const auto special = hn::Or(hn::Or(shifted, hn::Set(du, 0x7F800000)), quiet);
    auto magnitude = hn::Add(shifted, hn::Set(du, 0x38000000));
    magnitude = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), small, magnitude);
    magnitude = hn::IfThenElse(hn::Eq(exponent, hn::Set(du, 0x7C00)), special, magnitude);
    const auto sign = hn::ShiftLeft<16>(hn::And(word, hn::Set(du, 0x8000)));
    return hn::BitCast(d, hn::Or(magnitude, sign));
#endif
  }
  template <bool kStream = false, class D>
  static HWY_INLINE void store([[maybe_unused]] D d, hn::VFromD<D> v, std::byte* at) {
#if ASYNCMESH_HAVE_F16C
    const hn::Rebind<uint16_t, D> d16;
    const hn::Rebind<hwy::float16_t, D> dh;
    store_bytes<kStream>(d16, hn::BitCast(d16, hn::DemoteTo(dh, v)), at);
#else
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
    const auto half = hn::Set(d, 0.5F);
    const auto subnormal =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du, half));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
    // Minus 2^-112's exponent, plus just below half an ulp.
    const auto bias = hn::Set(du, 0xFFFU - 0x38000000U);
    auto word = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, bias), odd));
    word = hn::IfThenElse(magnitude_above(du, magnitude, 0x387FFFFF), word, subnormal);
    word = hn::IfThenElse(magnitude_above(du, magnitude, 0x477FEFFF), hn::Set(du, 0x7C00), word);
    const auto nan =
        hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3FF)), hn::Set(du, 0x7E00));
    word = hn::IfThenElse(magnitude_above(du, magnitude, 0x7F800000), nan, word);
    word = hn::Or(word, hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000)));
    store_narrow<kStream>(du, word, at);
#endif
  }
  static HWY_INLINE float load1(const std::byte* at) {
    uint16_t word;
    __builtin_memcpy(&word, at, sizeof(word));
    return from_float16(word);
  }
  static HWY_INLINE void store1(float value, std::byte* at) {
    const uint16_t word = to_float16(value);
    __builtin_memcpy(at, &word, sizeof(word));
  }
};

// visitor.template run<Format>() with the Format of `encoding`, which must be storable.
template <class Visitor>
HWY_INLINE auto with_format(Encoding encoding, const Visitor& visitor) {
  switch (encoding) {
    case Encoding::kBfloat16:
      return visitor.template run<Bfloat16>();
    case Encoding::kFloat16:
      return visitor.template run<Float16>();
    default:
      return visitor.template run<Float32>();
  }
}

// kStream of a run: past the caches, to memory that is aligned to 64 bytes; the caller flushes
// (hwy::FlushStream). Pays for what exceeds the caches: lines that are written need not be read.
template <class Format, bool kStream = false>
HWY_INLINE void decode_run(const std::byte* from, size_t count, float* to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (; count >= lanes; count -= lanes) {
    Float32::store<kStream>(d, Format::load(d, from), reinterpret_cast<std::byte*>(to));
    from += lanes * Format::kBytes;
    to += lanes;
  }
  for (; count != 0; --count) {
    *to++ = Format::load1(from);
    from += Format::kBytes;
  }
}

template <class Format, bool kStream = false>
HWY_INLINE void encode_run(const float* from, size_t count, std::byte* to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (; count >= lanes; count -= lanes) {
    Format::template store<kStream>(d, hn::LoadU(d, from), to);
    from += lanes;
    to += lanes * Format::kBytes;
  }
  for (; count != 0; --count) {
    Format::store1(*from++, to);
    to += Format::kBytes;
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
