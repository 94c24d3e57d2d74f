#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/partition_pack.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include <hwy/cache_control.h>

#include "kernels/cpu/codec-inl.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/quantise.h"
#include "kernels/cpu/subset_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// A copy past the caches of all whole lines.
HWY_NOINLINE void stream_bytes(const std::byte* from, size_t bytes, std::byte* to) {
  constexpr size_t kLine = 64;
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

// Collects values and passes them on a run at a time. A snapshot that stays in the caches is
// collected in its place, others in a buffer.
template <class Storage>
class Packer {
 public:
  Packer(const PackJob& job, const PackRange& range)
      : job_(job),
        inplace_(job.snapshot != nullptr && !job.streams),
        number_(range.first),
        left_(range.count),
        dropping_(range.skip != 0),
        out_(inplace_ && !dropping_ ? job.snapshot + number_ : buffer_),
        filled_(dropping_ ? kRun - range.skip : 0) {}
  ~Packer() { flush(); }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  // False: there is enough.
  HWY_INLINE bool take(const std::byte* data, uint64_t count) {
    if (HWY_UNLIKELY(count >= kRun - filled_)) return take_over(data, count);
    decode_run<Storage>(data, count, out_ + filled_);
    filled_ += count;
    return true;
  }

 private:
  static constexpr uint64_t kRun = kGroup;

  // Over the end of a run; a piece is shorter than one.
  HWY_NOINLINE bool take_over(const std::byte* data, uint64_t count) {
    const uint64_t room = kRun - filled_;
    decode_run<Storage>(data, room, out_ + filled_);
    filled_ = kRun;
    flush();
    if (left_ == 0) return false;
    decode_run<Storage>(data + room * Storage::kBytes, count - room, out_);
    filled_ = count - room;
    return true;
  }

  HWY_INLINE void flush() {
    if (dropping_) {
      dropping_ = false;
    } else if (left_ != 0) {
      pass_on();
      number_ += filled_;
      left_ -= kRun;
    }
    if (inplace_) out_ = job_.snapshot + number_;
    filled_ = 0;
  }

  HWY_INLINE void pass_on() {
    if (filled_ == 0) return;
    const size_t offset = encoded_bytes(job_.wire.encoding, number_);
    if (job_.encoded != nullptr && !job_.streams) {
      quantise_values(out_, filled_, job_.wire, number_, job_.encoded + offset);
    } else if (job_.encoded != nullptr) {
      HWY_ALIGN std::byte encoded[kRun * sizeof(float)];
      quantise_values(out_, filled_, job_.wire, number_, encoded);
      stream_bytes(encoded, encoded_bytes(job_.wire.encoding, filled_), job_.encoded + offset);
    }
    if (job_.snapshot != nullptr && !inplace_) {
      stream_bytes(reinterpret_cast<const std::byte*>(out_), filled_ * sizeof(float),
                   reinterpret_cast<std::byte*>(job_.snapshot + number_));
    }
  }

  const PackJob& job_;
  const bool inplace_;
  uint64_t number_;  // of the next value that counts
  uint64_t left_;    // values that count, whole runs but for the last range's
  bool dropping_;    // the values before the first one that counts: they fill the end of a run
  float* out_;
  uint64_t filled_;
  HWY_ALIGN float buffer_[kRun];
};

struct PackPiece {
  const std::byte* data;
  uint64_t count;
};
static_assert(kPiece < kGroup);

struct PackVisitor {
  const PackJob& job;
  const PackRange& range;

  template <class Storage>
  HWY_INLINE void run() const {
    const WalkPlan plan(job.table, job.subset, range.blocks.begin, range.blocks.end);
    Packer<Storage> packer(job, range);
    walk_pieces<PackPiece>(
        plan, Storage::kBytes,
        [](const BlockPlace& place, uint64_t) HWY_ATTR {
          const auto* data = static_cast<const std::byte*>(place.data);
          return PackPiece{data + place.offset * Storage::kBytes, place.count};
        },
        [](const PackPiece& piece)
            HWY_ATTR { prefetch_run(piece.data, piece.count * Storage::kBytes); },
        [&](const PackPiece& piece) HWY_ATTR { return packer.take(piece.data, piece.count); });
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
  const PackJob job = {table, subset, wire, snapshot, encoded, larger_than_caches(table)};
  spread_blocks(on, subset, [&](const BlockRange& blocks) {
    const PackRange range = whole_groups(job, blocks);
    if (range.count != 0) HWY_DYNAMIC_DISPATCH(pack_here)(job, range);
  });
}

}  // namespace asyncmesh::kernels
#endif
