#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/partition_pack.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include <hwy/cache_control.h>

#include "kernels/cpu/codec-inl.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/quantise.h"
#include "kernels/cpu/subset_walk-inl.h"
#include "kernels/cpu/vector_writer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

constexpr size_t kLine = 64;

// A copy past the caches of all whole lines.
HWY_NOINLINE void stream_bytes(const std::byte* from, size_t bytes, std::byte* to) {
  const hn::CappedTag<uint32_t, kLine / sizeof(uint32_t)> d;
  const size_t before = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  const size_t head = HWY_MIN(before, bytes);
  if (head != 0) __builtin_memcpy(to, from, head);
  size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    for (size_t i = 0; i < kLine; i += hn::Lanes(d) * sizeof(uint32_t)) {
      hn::Stream(load_bytes(d, from + at + i), d, reinterpret_cast<uint32_t*>(to + at + i));
    }
  }
  if (at != bytes) __builtin_memcpy(to + at, from + at, bytes - at);
}

struct PackPiece {
  const std::byte* data;
  uint64_t count;
};
using PackBatch = Batch<PackPiece, 16>;

// The values that were packed last, by their numbers.
struct PackRing {
  static constexpr uint64_t kValues = 2 * kGroup;
  static_assert(kValues >= PackBatch::kPieces * kPiece + kGroup);

  HWY_ALIGN float values[kValues];
};

// Encodes the values of the ring, a group at a time.
class PackEncoder {
 public:
  PackEncoder(const PackJob& job, const PackRing& ring, uint64_t first)
      : job_(job), ring_(ring), next_(first) {}

  // The ring has the values up to number `end`.
  void advance(uint64_t end) {
    while (end - next_ >= kGroup) encode(kGroup);
  }
  void finish(uint64_t end) {
    advance(end);
    if (end != next_) encode(end - next_);
  }

 private:
  void encode(uint64_t count) {
    const float* const values = ring_.values + next_ % PackRing::kValues;
    std::byte* const out = job_.encoded + encoded_bytes(job_.wire.encoding, next_);
    if (job_.streams) {
      HWY_ALIGN std::byte group[kGroup * sizeof(float)];
      quantise_values(values, count, job_.wire, next_, group);
      stream_bytes(group, encoded_bytes(job_.wire.encoding, count), out);
    } else {
      quantise_values(values, count, job_.wire, next_, out);
    }
    next_ += count;
  }

  const PackJob& job_;
  const PackRing& ring_;
  uint64_t next_;  // to be encoded: the start of a group
};

// To the ring, from value `at` of it on.
template <class Storage>
HWY_INLINE void keep(const std::byte* data, uint64_t count, uint64_t at, float* values) {
  const uint64_t room = PackRing::kValues - at;
  if (HWY_LIKELY(count <= room)) return decode_run<Storage>(data, count, values + at);
  decode_run<Storage>(data, room, values + at);
  decode_run<Storage>(data + room * Storage::kBytes, count - room, values);
}

// The loop that moves the data.
template <class Storage, bool kEncodes, bool kWrites>
HWY_NOINLINE void move_batch(const PackBatch& batch, const PackBatch& later, VectorWriter& snapshot,
                             uint64_t number, float* ring) {
  VectorWriter out = snapshot;
  for_each_piece(batch, later,
                 [&](const PackPiece& piece, auto count, const PackPiece& next, auto next_count)
                     HWY_ATTR {
                       prefetch_all(next.data, next_count * Storage::kBytes);
                       if constexpr (kEncodes) {
                         keep<Storage>(piece.data, count, number % PackRing::kValues, ring);
                         number += count;
                       }
                       if constexpr (kWrites) out.append<Storage>(piece.data, count);
                     });
  snapshot = out;
}

// The values of a range, out of those of its blocks.
class PackTrim {
 public:
  explicit PackTrim(const PackRange& range) : skip_(range.skip), left_(range.count) {}

  bool more() const { return left_ != 0; }

  // Values of the batch that count. `trimmed` is the batch then, or where it is to be trimmed, what
  // is left of it.
  template <size_t kBytes>
  uint64_t operator()(const PackBatch*& batch, PackBatch& trimmed) {
    if (HWY_UNLIKELY(skip_ != 0 || batch->values > left_)) {
      trimmed = *batch;
      trim<kBytes>(trimmed);
      batch = &trimmed;
    }
    left_ -= batch->values;
    return batch->values;
  }

 private:
  template <size_t kBytes>
  void trim(PackBatch& batch) {
    uint64_t values = 0;
    for (uint32_t i = 0; i < batch.count; ++i) {
      PackPiece& piece = batch.items[i];
      const uint64_t drop = HWY_MIN(skip_, piece.count);
      skip_ -= drop;
      piece.data += drop * kBytes;
      piece.count = HWY_MIN(piece.count - drop, left_ - values);
      values += piece.count;
    }
    batch.values = values;
  }

  uint64_t skip_;
  uint64_t left_;
};

struct PackVisitor {
  const PackJob& job;
  const PackRange& range;

  template <class Storage>
  HWY_INLINE void run() const {
    if (job.encoded == nullptr) {
      pack<Storage, false, true>();
    } else if (job.snapshot == nullptr) {
      pack<Storage, true, false>();
    } else {
      pack<Storage, true, true>();
    }
  }

 private:
  template <class Storage, bool kEncodes, bool kWrites>
  HWY_INLINE void pack() const {
    const WalkPlan plan(job.table, job.subset, range.blocks.begin, range.blocks.end);
    PackRing ring;
    PackEncoder encoder(job, ring, range.first);
    VectorWriter snapshot(kWrites ? job.snapshot + range.first : nullptr, job.streams);
    PackTrim trim(range);
    uint64_t number = range.first;
    walk_batches<PackBatch>(
        plan, kTableAheadBytes / Storage::kBytes,
        [](const BlockPlace& place, uint64_t, PackPiece& piece_out) HWY_ATTR {
          piece_out = {place.data, place.count};
        },
        [](const PackPiece& piece)
            HWY_ATTR { prefetch_all(piece.data, piece.count * Storage::kBytes); },
        [&](const PackBatch& all, const PackBatch& later) HWY_ATTR {
          PackBatch trimmed;
          const PackBatch* batch = &all;
          const uint64_t values = trim.operator()<Storage::kBytes>(batch, trimmed);
          move_batch<Storage, kEncodes, kWrites>(*batch, later, snapshot, number, ring.values);
          number += values;
          if constexpr (kEncodes) encoder.advance(number);
          return trim.more();
        });
    if constexpr (kEncodes) encoder.finish(number);
    if constexpr (kWrites) snapshot.finish();
  }
};

void pack_here(const PackJob& job, const PackRange& range) {
  with_format(job.table.storage, PackVisitor{job, range});
  if (job.streams) hwy::FlushStream();
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(pack_here);

// Scaled groups and random bits are laid out over the whole run: a range takes the groups that
// begin in its blocks, the last of which may need values of the next range's blocks.
PackRange whole_groups(const PackJob& job, const BlockRange& blocks) {
  const uint64_t begin = values_before(job.table, job.subset, blocks.begin);
  const uint64_t all = subset_blocks(job.subset);
  const auto round_up = [](uint64_t value) { return (value + kGroup - 1) / kGroup * kGroup; };
  PackRange range = {blocks, begin, 0, UINT64_MAX};
  if (blocks.begin != 0) {
    range.first = round_up(begin);
    range.skip = range.first - begin;
  }
  if (blocks.end != all) {
    const uint64_t end = round_up(values_before(job.table, job.subset, blocks.end));
    range.count = end > range.first ? end - range.first : 0;
    range.blocks.end = all - blocks.end < kGroup ? all : blocks.end + kGroup;
  }
  return range;
}

}  // namespace

void cpu_partition_pack(const ParameterTable& table, const Subset& subset, const Wire& wire,
                        float* snapshot, std::byte* encoded, const Execution& on) {
  if (snapshot == nullptr && encoded == nullptr) return;
  const PackJob job = {table, subset, wire, snapshot, encoded, larger_than_caches(table)};
  spread_blocks(on, subset, [&](const BlockRange& blocks) {
    const PackRange range = whole_groups(job, blocks);
    if (range.count != 0) HWY_DYNAMIC_DISPATCH(pack_here)(job, range);
  });
}

}  // namespace asyncmesh::kernels
#endif
