// Rows: the kScaled values that share a scale, as vectors and as bytes of their encodings.
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_ROWS_INL_H
#undef ASYNCMESH_KERNELS_CPU_ROWS_INL_H
#else
#define ASYNCMESH_KERNELS_CPU_ROWS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/wire.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that half a row of kScaled values is a whole number of vectors, and so are
// the scales of a group.
using RowTag = hn::CappedTag<float, 16>;
using RowIntTag = hn::RebindToSigned<RowTag>;
using RowBitsTag = hn::RebindToUnsigned<RowTag>;
using RowVector = hn::VFromD<RowTag>;
using RowBits = hn::VFromD<RowBitsTag>;

inline constexpr size_t kRowLanes = hn::MaxLanes(RowTag());
inline constexpr size_t kRowVectors = kScaled / kRowLanes;
inline constexpr size_t kRows = kGroup / kScaled;

template <Encoding kEncoding>
inline constexpr size_t kPerByte = kEncoding == Encoding::kInt4 ? 2 : 1;  // codes
template <Encoding kEncoding>
inline constexpr size_t kRowBytes = kScaled / kPerByte<kEncoding>;
template <Encoding kEncoding>
inline constexpr size_t kGroupBytes = kScaleBytes + kRows* kRowBytes<kEncoding>;

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
