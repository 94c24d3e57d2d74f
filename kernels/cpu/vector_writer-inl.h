// Floats one after another to memory, as whole aligned vectors whatever the alignment: a streaming
// store needs that, and one that crosses a cache line costs two.
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_VECTOR_WRITER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_VECTOR_WRITER_INL_H
#undef ASYNCMESH_KERNELS_CPU_VECTOR_WRITER_INL_H
#else
#define ASYNCMESH_KERNELS_CPU_VECTOR_WRITER_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/codec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// Reads nothing of what it writes to, and writes nothing beside it: two may write to either side of
// any address at the same time. What is left over is held in a register until finish().
//
// All of it is inlined: a loop that works on a copy has its state in registers.
class VectorWriter {
 public:
  // `streams`: past the caches; the caller flushes (hwy::FlushStream).
  HWY_INLINE VectorWriter(float* to, bool streams)
      : before_(reinterpret_cast<uintptr_t>(to) / sizeof(float) % kLanes), streams_(streams) {
    at_ = to - before_;
    fill(before_);
  }

  // `count` words of a Format.
  template <class Format>
  HWY_INLINE void append(const std::byte* data, uint64_t count) {
    const uint64_t rest = count % kLanes;
    const std::byte* const end = data + (count - rest) * Format::kBytes;
    if (HWY_LIKELY(filled_ == 0)) {
      for (; data != end; data += kLanes * Format::kBytes) write(Format::load(Tag(), data));
    } else {
      for (; data != end; data += kLanes * Format::kBytes) {
        const auto turned = hn::TableLookupLanes(Format::load(Tag(), data), turn_);
        write(joined(turned));
        held_ = turned;
      }
    }
    if (HWY_UNLIKELY(rest != 0)) append_part<Format>(end, rest);
  }

  HWY_INLINE void finish() const { write_lanes(held_, filled_); }

 private:
  using Tag = hn::ScalableTag<float>;
  using Vector = hn::VFromD<Tag>;
  using Indices = decltype(hn::SetTableIndices(Tag(), static_cast<const int32_t*>(nullptr)));
  static constexpr size_t kLanes = hn::MaxLanes(Tag());

  // Less than a vector.
  template <class Format>
  HWY_INLINE void append_part(const std::byte* data, uint64_t count) {
    HWY_ALIGN float values[kLanes] = {};
    for (uint64_t i = 0; i < count; ++i) values[i] = Format::load1(data + i * Format::kBytes);
    const auto turned = hn::TableLookupLanes(hn::Load(Tag(), values), turn_);
    const auto whole = joined(turned);
    if (filled_ + count < kLanes) {
      held_ = whole;
      return fill(filled_ + count);
    }
    write(whole);
    held_ = turned;
    fill(filled_ + count - kLanes);
  }

  HWY_INLINE Vector joined(Vector turned) const {
    return hn::IfThenElse(hn::FirstN(Tag(), filled_), held_, turned);
  }
  HWY_INLINE void write(Vector whole) {
    if (HWY_UNLIKELY(before_ != 0)) {
      write_lanes(whole, kLanes);
      before_ = 0;
    } else if (streams_) {
      hn::Stream(whole, Tag(), at_);
    } else {
      hn::Store(whole, Tag(), at_);
    }
    at_ += kLanes;
  }
  HWY_INLINE void write_lanes(Vector vector, size_t end) const {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(vector, Tag(), lanes);
    for (size_t i = before_; i < end; ++i) at_[i] = lanes[i];
  }
  HWY_INLINE void fill(size_t filled) {
    HWY_ALIGN int32_t turn[kLanes];
    for (size_t i = 0; i < kLanes; ++i) {
      turn[i] = static_cast<int32_t>((i + kLanes - filled) % kLanes);
    }
    turn_ = hn::SetTableIndices(Tag(), turn);
    filled_ = filled;
  }

  float* at_;      // aligned to a vector
  size_t filled_;  // values held for the vector there
  size_t before_;  // lanes of it that lie before the first value
  bool streams_;
  Indices turn_;  // turns a vector by as many lanes as are filled
  Vector held_ = hn::Zero(Tag());
};

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
