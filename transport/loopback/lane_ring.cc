#include "transport/loopback/lane_ring.h"

#include <cstring>

namespace asyncmesh::transport {

LaneRing::LaneRing(Epoch epoch, LaneId lane, const LaneGeometry& geometry)
    : epoch_(epoch),
      lane_(lane),
      geometry_(geometry),
      memory_(geometry.slots * geometry.stride()),
      commits_(std::make_unique<Commit[]>(geometry.slots)) {}

void LaneRing::write(Sequence sequence, const std::byte* data, uint32_t bytes) noexcept {
  Commit& commit = commits_[index(sequence)];
  if (bytes > 0) std::memcpy(slot(sequence), data, bytes);
  commit.bytes = bytes;
  // Pairs with the load in `committed`.
  commit.sequence.store(sequence, std::memory_order_seq_cst);
}

bool LaneRing::committed(Sequence sequence) const noexcept {
  return commits_[index(sequence)].sequence.load(std::memory_order_seq_cst) == sequence;
}

void LaneRing::put_credit(const Credit& credit) noexcept {
  const uint64_t version = credit_.version.load(std::memory_order_relaxed);
  credit_.version.store(version + 1, std::memory_order_relaxed);
  // Release on each word: a reader that sees one of them sees the odd version as well and tries
  // again.
  credit_.received.store(credit.received, std::memory_order_release);
  credit_.taken.store(credit.taken, std::memory_order_release);
  credit_.released.store(credit.released, std::memory_order_release);
  credit_.version.store(version + 2, std::memory_order_seq_cst);
}

bool LaneRing::take_credit(Credit* credit_out) noexcept {
  // Pairs with the final store in `put_credit`: an even version covers all three words.
  const uint64_t before = credit_.version.load(std::memory_order_seq_cst);
  if (before == version_seen_ || before % 2 != 0) return false;
  Credit credit;
  // Acquire on each word keeps the second look at the version behind them.
  credit.received = credit_.received.load(std::memory_order_acquire);
  credit.taken = credit_.taken.load(std::memory_order_acquire);
  credit.released = credit_.released.load(std::memory_order_acquire);
  if (credit_.version.load(std::memory_order_relaxed) != before) return false;
  version_seen_ = before;
  *credit_out = credit;
  return true;
}

bool LaneRing::has_credit() const noexcept {
  return credit_.version.load(std::memory_order_seq_cst) != version_seen_;
}

}  // namespace asyncmesh::transport
