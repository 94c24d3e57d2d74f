// Words of one format to words of another. Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_CONVERT_INL_H_
#undef ASYNCMESH_KERNELS_CPU_CONVERT_INL_H_
#else
#define ASYNCMESH_KERNELS_CPU_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/codec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

template <class From, class To>
HWY_INLINE void convert_run(const std::byte* from, uint64_t count, std::byte* to) {
  const hn::ScalableTag<float> d;
  const uint64_t lanes = hn::Lanes(d);
  const std::byte* const end = from + count * From::kBytes;
  for (; count >= lanes; count -= lanes) {
    To::store(d, From::load(d, from), to);
    from += lanes * From::kBytes;
    to += lanes * To::kBytes;
  }
  for (; from != end; from += From::kBytes, to += To::kBytes) To::store1(From::load1(from), to);
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
