// Runs of values from and to every encoding of wire.h, for buffers in the cache: what quantise,
// partition_pack and average are made of. Bit for bit what kernels/scaled.h says of one value.
//
//   quantise_run     any number of values, from the start of a group on
//   dequantise_run   any range of an encoded run that starts at a multiple of kScaled
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_QUANTISE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_QUANTISE_INL_H
#undef ASYNCMESH_KERNELS_CPU_QUANTISE_INL_H
#else
#define ASYNCMESH_KERNELS_CPU_QUANTISE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/descale-inl.h"
#include "kernels/cpu/scaled-inl.h"
#include "kernels/cpu/stochastic-inl.h"
#include "kernels/wire.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// values[0, count) as `wire` says. `first` is the number of values[0] in the whole run: a multiple
// of kGroup for scaled encodings (`out` then starts a group), of kScaled for stochastic rounding.
template <bool kStream = false>
HWY_INLINE void quantise_run(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                             std::byte* out) {
  const bool stochastic = wire.rounding == Rounding::kStochastic;
  switch (wire.encoding) {
    case Encoding::kFloat32:
      __builtin_memcpy(out, values, count * sizeof(float));
      return;
    case Encoding::kBfloat16:
      return stochastic ? stochastic_run<Bfloat16, kStream>(values, count, wire.seed, first, out)
                        : encode_run<Bfloat16, kStream>(values, count, out);
    case Encoding::kFloat16:
      return stochastic ? stochastic_run<Float16, kStream>(values, count, wire.seed, first, out)
                        : encode_run<Float16, kStream>(values, count, out);
    case Encoding::kInt8:
      return stochastic ? scaled_run<Encoding::kInt8, true>(values, count, wire.seed, first, out)
                        : scaled_run<Encoding::kInt8, false>(values, count, wire.seed, first, out);
    case Encoding::kInt4:
      return stochastic ? scaled_run<Encoding::kInt4, true>(values, count, wire.seed, first, out)
                        : scaled_run<Encoding::kInt4, false>(values, count, wire.seed, first, out);
  }
}

// Values [first, first + count) of the run encoded at `encoded`. For scaled encodings `first` is a
// multiple of kScaled.
template <bool kStream = false>
HWY_INLINE void dequantise_run(const std::byte* encoded, Encoding encoding, uint64_t first,
                               uint64_t count, float* out) {
  switch (encoding) {
    case Encoding::kFloat32:
      __builtin_memcpy(out, encoded + first * Float32::kBytes, count * Float32::kBytes);
      return;
    case Encoding::kBfloat16:
      return decode_run<Bfloat16, kStream>(encoded + first * Bfloat16::kBytes, count, out);
    case Encoding::kFloat16:
      return decode_run<Float16, kStream>(encoded + first * Float16::kBytes, count, out);
    case Encoding::kInt8:
      return descale_run<Encoding::kInt8, kStream>(encoded, first, count, out);
    case Encoding::kInt4:
      return descale_run<Encoding::kInt4, kStream>(encoded, first, count, out);
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
