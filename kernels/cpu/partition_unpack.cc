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
  HWY_INLINE WordReader(const UnpackJob& job, uint64_t first)
      : words_(job.encoded + first * Format::kBytes) {}
  HWY_INLINE const std::byte* read(uint64_t count) {
    const std::byte* const words = words_;
    words_ += count * Format::kBytes;
    return words;
  }

 private:
  const std::byte* words_;
};

struct RunReader : RunDecoder {
  RunReader(const UnpackJob& job, uint64_t first)
      : RunDecoder(job.encoded, job.encoding, job.count, first) {}
};
static_assert(kPiece <= RunDecoder::kMost);

constexpr uintptr_t kLineBytes = 64;

HWY_INLINE uintptr_t in_line(const std::byte* at) {
  return reinterpret_cast<uintptr_t>(at) % kLineBytes;
}

struct UnpackPiece {
  std::byte* data;
  uint64_t count;
};

// Writes pieces. Whole lines of fp32 go past the caches where the table is larger than them: a line
// that is written whole need not be read first, which is a third of the traffic.
template <class Wire, class Storage>
struct PieceWriter {
  bool streams;

  HWY_INLINE void prefetch(const UnpackPiece& piece) const {
    const size_t bytes = piece.count * Storage::kBytes;
    if (!streams || bytes < 2 * kLineBytes) return prefetch_run(piece.data, bytes);
    if (in_line(piece.data) != 0) prefetch_line(piece.data);
    if (in_line(piece.data + bytes) != 0) prefetch_line(piece.data + bytes);
  }

  HWY_INLINE void write(const std::byte* from, const UnpackPiece& piece) const {
    if (streams && piece.count * Storage::kBytes >= 2 * kLineBytes) {
      write_lines(from, piece);
    } else {
      convert_run<Wire, Storage>(from, piece.count, piece.data);
    }
  }

 private:
  HWY_INLINE void write_lines(const std::byte* from, const UnpackPiece& piece) const {
    const hn::CappedTag<float, kLineBytes / sizeof(float)> d;
    constexpr uint64_t kFloats = kLineBytes / sizeof(float);
    std::byte* to = piece.data;
    uint64_t left = piece.count;
    const uint64_t head = (kLineBytes - in_line(to)) % kLineBytes / sizeof(float);
    if (HWY_UNLIKELY(head != 0)) {
      convert_run<Wire, Storage>(from, head, to);
      from += head * Wire::kBytes;
      to += head * Storage::kBytes;
      left -= head;
    }
    for (; left >= kFloats; left -= kFloats) {
      for (uint64_t i = 0; i < kFloats; i += hn::Lanes(d)) {
        hn::Stream(Wire::load(d, from), d, reinterpret_cast<float*>(to));
        from += hn::Lanes(d) * Wire::kBytes;
        to += hn::Lanes(d) * Storage::kBytes;
      }
    }
    if (HWY_UNLIKELY(left != 0)) convert_run<Wire, Storage>(from, left, to);
  }
};

template <class Reader, class Wire, class Storage>
HWY_INLINE void unpack_range(const UnpackJob& job, const BlockRange& blocks) {
  const WalkPlan plan(job.table, job.subset, blocks.begin, blocks.end);
  Reader values(job, values_before(job.table, job.subset, blocks.begin));
  const PieceWriter<Wire, Storage> writer = {job.streams && Storage::kBytes == sizeof(float)};
  walk_pieces<UnpackPiece>(
      plan, Storage::kBytes,
      [](const BlockPlace& place, uint64_t) HWY_ATTR {
        auto* const data = static_cast<std::byte*>(place.data);
        return UnpackPiece{data + place.offset * Storage::kBytes, place.count};
      },
      [writer](const UnpackPiece& piece) HWY_ATTR { writer.prefetch(piece); },
      [writer, &values](const UnpackPiece& piece) HWY_ATTR {
        writer.write(values.read(piece.count), piece);
        return true;
      });
  if (job.streams) hwy::FlushStream();
}

struct WordsToFloats {
  const UnpackJob& job;
  const BlockRange& blocks;

  template <class Wire>
  HWY_INLINE void run() const {
    unpack_range<WordReader<Wire>, Wire, Float32>(job, blocks);
  }
};

struct RunToStorage {
  const UnpackJob& job;
  const BlockRange& blocks;

  template <class Storage>
  HWY_INLINE void run() const {
    unpack_range<RunReader, Float32, Storage>(job, blocks);
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
