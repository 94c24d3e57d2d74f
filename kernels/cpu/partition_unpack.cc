#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/partition_unpack.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include <hwy/cache_control.h>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/run_decoder.h"
#include "kernels/cpu/subset_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// Reads words of the wire in place.
template <class Format>
class WordReader {
 public:
  static constexpr bool kInPlace = true;
  WordReader(const UnpackJob& job, uint64_t first) : words_(job.encoded + first * Format::kBytes) {}
  const std::byte* read(uint64_t count) {
    const std::byte* const words = words_;
    words_ += count * Format::kBytes;
    return words;
  }

 private:
  const std::byte* words_;
};

struct RunReader : RunDecoder {
  static constexpr bool kInPlace = false;
  RunReader(const UnpackJob& job, uint64_t first)
      : RunDecoder(job.encoded, job.encoding, job.count, first) {}
};
constexpr uintptr_t kLineBytes = 64;

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

// The loop that moves the data. kInPlace: `words` are not in a cache.
template <class Wire, class Storage, bool kStreams, bool kInPlace>
HWY_NOINLINE void write_batch(const UnpackBatch& batch, const UnpackBatch& later,
                              const std::byte* words) {
  using Writer = PieceWriter<Wire, Storage, kStreams>;
  for_each_piece(batch, later,
                 [&](const UnpackPiece& piece, auto count, const UnpackPiece& next, auto next_count)
                     HWY_ATTR {
                       Writer::prefetch(next.data, next_count);
                       if (kInPlace) prefetch_behind(words, count * Wire::kBytes);
                       Writer::write(words, count, piece.data);
                       words += count * Wire::kBytes;
                     });
}

template <class Reader, class Wire, class Storage, bool kStreams>
HWY_INLINE void unpack_range(const UnpackJob& job, const BlockRange& blocks) {
  const WalkPlan plan(job.table, job.subset, blocks.begin, blocks.end);
  Reader values(job, values_before(job.table, job.subset, blocks.begin));
  walk_batches<UnpackBatch>(
      plan, Storage::kBytes,
      [](const BlockPlace& place, uint64_t) HWY_ATTR {
        auto* const data = static_cast<std::byte*>(place.data);
        return UnpackPiece{data + place.offset * Storage::kBytes, place.count};
      },
      [](const UnpackPiece& piece)
          HWY_ATTR { PieceWriter<Wire, Storage, kStreams>::prefetch(piece.data, piece.count); },
      [&values](const UnpackBatch& batch, const UnpackBatch& later) HWY_ATTR {
        write_batch<Wire, Storage, kStreams, Reader::kInPlace>(batch, later,
                                                               values.read(batch.values()));
        return true;
      });
  if (kStreams) hwy::FlushStream();
}

struct WordsToFloats {
  const UnpackJob& job;
  const BlockRange& blocks;

  template <class Wire>
  HWY_INLINE void run() const {
    if (job.streams) {
      unpack_range<WordReader<Wire>, Wire, Float32, true>(job, blocks);
    } else {
      unpack_range<WordReader<Wire>, Wire, Float32, false>(job, blocks);
    }
  }
};

struct RunToStorage {
  const UnpackJob& job;
  const BlockRange& blocks;

  template <class Storage>
  HWY_INLINE void run() const {
    if (job.streams && Storage::kBytes == sizeof(float)) {
      unpack_range<RunReader, Float32, Storage, Storage::kBytes == sizeof(float)>(job, blocks);
    } else {
      unpack_range<RunReader, Float32, Storage, false>(job, blocks);
    }
  }
};

void unpack_here(const UnpackJob& job, const BlockRange& blocks) {
  if (job.table.storage == Encoding::kFloat32 && storable(job.encoding)) {
    with_format(job.encoding, WordsToFloats{job, blocks});
  } else {
    with_format(job.table.storage, RunToStorage{job, blocks});
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(unpack_here);

}  // namespace

void cpu_partition_unpack(const ParameterTable& table, const Subset& subset, Encoding encoding,
                          const std::byte* encoded, const Execution& on) {
  // How many there are matters where the last group is short.
  const uint64_t count =
      scaled(encoding) || table.storage != Encoding::kFloat32 ? subset_elements(table, subset) : 0;
  const UnpackJob job = {table, subset, encoding, encoded, count, larger_than_caches(table)};
  spread_blocks(on, subset, [&](const BlockRange& blocks) {
    HWY_DYNAMIC_DISPATCH(unpack_here)(job, blocks);
  });
}

}  // namespace asyncmesh::kernels
#endif
