#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/partition_unpack.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include <hwy/cache_control.h>

#include "kernels/cpu/partition.h"
#include "kernels/cpu/piece_writer-inl.h"
#include "kernels/cpu/run_decoder.h"
#include "kernels/cpu/subset_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// The loop that moves the data. kInPlace: `words` are not in a cache.
template <class Wire, class Storage, bool kStreams, bool kInPlace>
HWY_NOINLINE void write_words(const UnpackBatch& batch, const UnpackBatch& later,
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

// The same of batches of whole pieces, decoded on the way. `first`: number of their first value.
template <Encoding kEncoding, bool kRow>
HWY_NOINLINE void write_rows(const UnpackBatch& batch, const UnpackBatch& later,
                             const std::byte* encoded, uint64_t first) {
  PieceDecoder<kEncoding, kRow> decoder = {encoded, first};
  decoder.prefetch_scales();
  for_each_piece(batch, later, decoder);
}

// Where the values of a walk come from: words of the wire in place ...
template <class Wire, class Storage, bool kStreams>
class WordSource {
 public:
  using Writer = PieceWriter<Wire, Storage, kStreams>;

  WordSource(const UnpackJob& job, uint64_t first) : words_(job.encoded + first * Wire::kBytes) {}
  HWY_INLINE void write(const UnpackBatch& batch, const UnpackBatch& later) {
    write_words<Wire, Storage, kStreams, true>(batch, later, words_);
    words_ += batch.values * Wire::kBytes;
  }

 private:
  const std::byte* words_;
};

// ... or decoded ahead, into a buffer ...
template <class Storage, bool kStreams>
class RunSource {
 public:
  using Writer = PieceWriter<Float32, Storage, kStreams>;

  RunSource(const UnpackJob& job, uint64_t first)
      : decoder_(job.encoded, job.encoding, job.count, first) {}
  HWY_INLINE void write(const UnpackBatch& batch, const UnpackBatch& later) {
    write_words<Float32, Storage, kStreams, false>(batch, later, decoder_.read(batch.values));
  }

 private:
  RunDecoder decoder_;
};

// ... or a scaled encoding, decoded on the way as long as pieces are as long as rows.
template <Encoding kEncoding>
class RowSource {
 public:
  using Writer = PieceWriter<Float32, Float32, true>;

  RowSource(const UnpackJob& job, uint64_t first)
      : encoded_(job.encoded), at_(first), decoder_(job.encoded, kEncoding, job.count, first) {}
  HWY_INLINE void write(const UnpackBatch& batch, const UnpackBatch& later) {
    static_assert(kPiece == kScaled);
    if (HWY_UNLIKELY(!batch.whole() || at_ % kPerByte<kEncoding> != 0)) {
      write_words<Float32, Float32, true, false>(batch, later,
                                                 decoder_.read_from(at_, batch.values));
    } else if (at_ % kScaled == 0) {
      write_rows<kEncoding, true>(batch, later, encoded_, at_);
    } else {
      write_rows<kEncoding, false>(batch, later, encoded_, at_);
    }
    at_ += batch.values;
  }

 private:
  const std::byte* const encoded_;
  uint64_t at_;
  RunDecoder decoder_;
};

template <class Storage, class Source>
HWY_NOINLINE void unpack_from(const UnpackJob& job, const BlockRange& blocks) {
  using Writer = typename Source::Writer;
  const WalkPlan plan(job.table, job.subset, blocks.begin, blocks.end);
  Source source(job, values_before(job.table, job.subset, blocks.begin));
  walk_batches<UnpackBatch>(
      plan, kTableAheadBytes / Storage::kBytes,
      [](const BlockPlace& place, uint64_t, UnpackPiece& piece_out) HWY_ATTR {
        piece_out = {place.data, place.count};
      },
      [](const UnpackPiece& piece) HWY_ATTR { Writer::prefetch(piece.data, piece.count); },
      [&source](const UnpackBatch& batch, const UnpackBatch& later) HWY_ATTR {
        source.write(batch, later);
        return true;
      });
  hwy::FlushStream();
}

// fp32 tables. Rows are decoded on the way where it pays: every source is compiled once per
// instruction set, and takes its time.
template <bool kStreams>
struct UnpackFloats {
  const UnpackJob& job;
  const BlockRange& blocks;

  // Of words.
  template <class Wire>
  HWY_INLINE void run() const {
    unpack_from<Float32, WordSource<Wire, Float32, kStreams>>(job, blocks);
  }
  HWY_INLINE void of_any() const {
    if (!scaled(job.encoding)) return with_format(job.encoding, *this);
    if constexpr (!kStreams) {
      unpack_from<Float32, RunSource<Float32, false>>(job, blocks);
    } else if (job.encoding == Encoding::kInt8) {
      unpack_from<Float32, RowSource<Encoding::kInt8>>(job, blocks);
    } else {
      unpack_from<Float32, RowSource<Encoding::kInt4>>(job, blocks);
    }
  }
};

struct UnpackStorage {
  const UnpackJob& job;
  const BlockRange& blocks;

  template <class Storage>
  HWY_INLINE void run() const {
    if constexpr (Storage::kBytes != sizeof(float)) {
      unpack_from<Storage, RunSource<Storage, false>>(job, blocks);
    } else if (job.streams) {
      UnpackFloats<true>{job, blocks}.of_any();
    } else {
      UnpackFloats<false>{job, blocks}.of_any();
    }
  }
};

void unpack_here(const UnpackJob& job, const BlockRange& blocks) {
  with_format(job.table.storage, UnpackStorage{job, blocks});
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
