// How the pieces of a walk are written to a table: from words, or decoded on the way.
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_PIECE_WRITER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_PIECE_WRITER_INL_H
#undef ASYNCMESH_KERNELS_CPU_PIECE_WRITER_INL_H
#else
#define ASYNCMESH_KERNELS_CPU_PIECE_WRITER_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/descale-inl.h"
#include "kernels/cpu/run_decoder.h"
#include "kernels/cpu/subset_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

inline constexpr uintptr_t kLineBytes = 64;

HWY_INLINE uintptr_t in_line(const std::byte* at) {
  return reinterpret_cast<uintptr_t>(at) % kLineBytes;
}

struct UnpackPiece {
  std::byte* data;
  uint64_t count;
};
using UnpackBatch = Batch<UnpackPiece, 8>;
static_assert(UnpackBatch::kPieces * kPiece <= RunDecoder::kMost);

// How pieces are written. kStreams, of fp32 where the table is larger than the caches: whole lines
// go past them; a line that is written whole need not be read first, which is a third of the
// traffic.
template <class Wire, class Storage, bool kStreams>
struct PieceWriter {
  static HWY_INLINE void prefetch(const std::byte* data, uint64_t count) {
    const size_t bytes = count * Storage::kBytes;
    if (!kStreams || bytes < 2 * kLineBytes) return prefetch_all(data, bytes);
    if (in_line(data) != 0) prefetch_line(data);
    if (in_line(data + bytes) != 0) prefetch_line(data + bytes);
  }

  template <class Count>
  static HWY_INLINE void write(const std::byte* from, Count count, std::byte* to) {
    if (!kStreams || count * Storage::kBytes < 2 * kLineBytes) {
      convert_run<Wire, Storage>(from, count, to);
    } else if (HWY_LIKELY(in_line(to) == 0)) {
      write_lines(from, count, to);
    } else {
      const uint64_t head = (kLineBytes - in_line(to)) / sizeof(float);
      convert_run<Wire, Storage>(from, head, to);
      write_lines(from + head * Wire::kBytes, count - head, to + head * Storage::kBytes);
    }
  }

 private:
  static HWY_INLINE void write_lines(const std::byte* from, uint64_t count, std::byte* to) {
    const hn::CappedTag<float, kLineBytes / sizeof(float)> d;
    const uint64_t rest = count % (kLineBytes / sizeof(float));
    const uint64_t lines = count - rest;
    for (uint64_t i = 0; i < lines; i += hn::Lanes(d)) {
      hn::Stream(Wire::load(d, from + i * Wire::kBytes), d,
                 reinterpret_cast<float*>(to + i * Storage::kBytes));
    }
    if (HWY_LIKELY(rest == 0)) return;
    convert_run<Wire, Storage>(from + lines * Wire::kBytes, rest, to + lines * Storage::kBytes);
  }
};

// Decodes pieces on the way to fp32 tables and past the caches, each of them as long as a row.
// `first`: number of the next value. kRow: it starts a row.
template <Encoding kEncoding, bool kRow>
struct PieceDecoder {
  using Writer = PieceWriter<Float32, Float32, true>;
  static constexpr size_t kBytes = kGroupBytes<kEncoding>;
  static constexpr size_t kAheadBytes = 4096 / kBytes * kBytes;

  const std::byte* encoded;
  uint64_t first;

  HWY_INLINE void prefetch_scales() const {
    prefetch_line(encoded + first / kGroup * kBytes + kAheadBytes);
  }
  template <class Count, class NextCount>
  HWY_INLINE void operator()(const UnpackPiece& piece, Count, const UnpackPiece& next,
                             NextCount next_count) {
    Writer::prefetch(next.data, next_count);
    prefetch_line(encoded + first / kGroup * kBytes + kScaleBytes +
                  first % kGroup / kPerByte<kEncoding> + kAheadBytes);
    if (HWY_LIKELY(in_line(piece.data) == 0)) {
      descale_piece<kEncoding, kRow, true>(encoded, first, piece.data);
    } else {
      HWY_ALIGN std::byte values[kPiece * sizeof(float)];
      descale_piece<kEncoding, kRow, false>(encoded, first, values);
      Writer::write(values, kPiece, piece.data);
    }
    first += kPiece;
  }
};

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
