// One lane inside one process: a ring of slots, a commit word per slot, and a cell for the newest
// credit. Shared by both ends.
//
//   writer: copy into slot `sequence % slots`, then store the sequence into the slot's commit word
//   (release) reader: the next sequence is there when the commit word equals it (acquire); compared
//   for equality, so an old lap never matches credit: cumulative, so the newest value replaces an
//   unread one (sequence lock; the words are atomics, there is no data race)
//
// A ring belongs to one epoch of one link: a later epoch gets a new ring, hence nothing stale can
// be delivered. The order of commits and credits against Endpoint::armed is sequentially
// consistent; see endpoint.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/cache_line.h"
#include "base/large_vector.h"
#include "transport/transport.h"

namespace asyncmesh::transport {

class LaneRing {
 public:
  LaneRing(Epoch epoch, LaneId lane, const LaneGeometry& geometry);

  Epoch epoch() const { return epoch_; }
  LaneId lane() const { return lane_; }
  const LaneGeometry& geometry() const { return geometry_; }

  // ---- writer's owner ----
  void write(Sequence sequence, const std::byte* data, uint32_t bytes) noexcept;
  bool take_credit(Credit* credit_out) noexcept;  // false: nothing newer, or just being written
  bool has_credit() const noexcept;               // take_credit would (soon) succeed

  // ---- reader's owner ----
  bool committed(Sequence sequence) const noexcept;
  std::byte* slot(Sequence sequence) noexcept {
    return memory_.data() + index(sequence) * geometry_.stride() + kFrameLead;
  }
  uint32_t bytes(Sequence sequence) const noexcept { return commits_[index(sequence)].bytes; }
  void put_credit(const Credit& credit) noexcept;

 private:
  struct alignas(64) Commit {
    std::atomic<Sequence> sequence{0};
    uint32_t bytes = 0;
  };
  struct alignas(kCacheLine) CreditCell {
    std::atomic<uint64_t> version{0};  // odd while being written
    std::atomic<Sequence> received{0};
    std::atomic<Sequence> taken{0};
    std::atomic<Sequence> released{0};
  };
  size_t index(Sequence sequence) const noexcept { return sequence & (geometry_.slots - 1); }

  Epoch epoch_;
  LaneId lane_;
  LaneGeometry geometry_;
  LargeVector<std::byte> memory_;
  std::unique_ptr<Commit[]> commits_;
  CreditCell credit_;
  alignas(kCacheLine) uint64_t version_seen_ = 0;  // writer's owner
};

}  // namespace asyncmesh::transport
