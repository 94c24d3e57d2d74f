#include "lane/lane_writer.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace asyncmesh {

using transport::Credit;
using transport::Sequence;

// A retained frame holds a buffer of the pool, so the pool's size bounds the entries in use.
LaneWriter::LaneWriter(uint32_t slots, StagingPool& staging)
    : staging_(staging),
      slots_(slots),
      mask_(std::bit_ceil(std::max(1U, staging.buffers())) - 1),
      retained_(mask_ + 1) {
  assert(std::has_single_bit(slots) && slots >= 2);
}

// The transport may still report frames from inside the Outbound's destructor.
LaneWriter::~LaneWriter() { outbound_.reset(); }

void LaneWriter::publish_state(LaneState state) noexcept {
  // Pairs with the acquire in `state`.
  published_state_.store(static_cast<uint32_t>(state), std::memory_order_release);
}

void LaneWriter::append_st(uint32_t buffer, uint32_t bytes) {
  if (state() == LaneState::kDead) {
    staging_.drop_st(buffer);
    return;
  }
  assert(next_ - oldest_ < retained_.size());
  at(next_) = Retained{buffer, bytes, false};
  ++next_;
  ++counters_.frames;
  counters_.bytes += bytes;
  send_pending();
}

Code LaneWriter::open_st(std::unique_ptr<transport::Outbound> outbound, Sequence resume,
                         uint32_t staging_id) {
  if (state() == LaneState::kDead) return Code::kPeerLost;
  close_st();
  // The reader never wants again what it said it has, and cannot have what never left.
  if (resume <= credit_.received || resume > sent_ + 1) return Code::kMismatch;
  outbound_ = std::move(outbound);
  staging_id_ = staging_id;
  credit_.received = resume - 1;
  unsent_ = resume;
  fault_ = Code::kOk;
  ++moves_;
  publish_state(LaneState::kOpen);
  send_pending();
  return Code::kOk;
}

void LaneWriter::close_st() {
  if (state() == LaneState::kDead) return;
  // Publishing first: nobody finds an open lane without its Outbound.
  publish_state(LaneState::kConnecting);
  outbound_.reset();
  for (Sequence sequence = oldest_; sequence < next_; ++sequence) at(sequence).on_wire = false;
  drop_done();
}

void LaneWriter::fail_st() {
  publish_state(LaneState::kDead);
  outbound_.reset();
  for (; oldest_ < next_; ++oldest_) staging_.drop_st(at(oldest_).buffer);
}

void LaneWriter::send_pending() {
  while (outbound_ != nullptr && fault_ == Code::kOk && unsent_ < next_) send(unsent_++);
}

void LaneWriter::send(Sequence sequence) {
  Retained& retained = at(sequence);
  if (sequence > sent_) {
    // The first frame after rest starts the watchdog's silence anew.
    if (credit_.released == sent_) ++moves_;
    sent_ = sequence;
  } else {
    ++counters_.replayed;
  }
  // Before the call: on_sent may come from inside it.
  retained.on_wire = true;
  const transport::Frame frame{staging_.data(retained.buffer), retained.bytes, staging_id_};
  if (outbound_->send(sequence, frame) != Code::kOk) {
    retained.on_wire = false;
    fault_ = Code::kLinkError;
  }
}

void LaneWriter::on_sent(Sequence sequence) {
  if (sequence < oldest_ || sequence >= next_) return;
  at(sequence).on_wire = false;
  ++moves_;
  drop_done();
}

void LaneWriter::on_credit(const Credit& credit) {
  if (credit.released > credit.taken || credit.taken > credit.received || credit.received > sent_) {
    fault_ = Code::kLinkError;
    return;
  }
  ++counters_.credits;
  // Two paths carry credit, so an older one may come later. The maximum of valid ones is valid.
  const Credit newest{std::max(credit_.received, credit.received),
                      std::max(credit_.taken, credit.taken),
                      std::max(credit_.released, credit.released)};
  if (newest == credit_) return;
  credit_ = newest;
  ++moves_;
  drop_done();
  // Both pair with the acquires in `untaken` and `unreleased`. After drop_done: who sees the credit
  // also finds the buffers in the pool.
  published_taken_.store(credit_.taken, std::memory_order_release);
  published_released_.store(credit_.released, std::memory_order_release);
}

// Called per frame, with something to drop per credit.
void LaneWriter::drop_done() {
  if (oldest_ <= credit_.released) drop_released();
}

void LaneWriter::drop_released() {
  while (oldest_ <= credit_.released && !at(oldest_).on_wire)
    staging_.drop_st(at(oldest_++).buffer);
}

void LaneWriter::watch(Nanoseconds now) {
  if (moves_ == watched_moves_ && credit_.released < sent_) return;
  watched_moves_ = moves_;
  quiet_since_ = now;
  probed_at_ = now;
}

bool LaneWriter::probe_due_st(Nanoseconds now, Nanoseconds quiet) {
  watch(now);
  if (outbound_ == nullptr || credit_.released >= sent_ || now - probed_at_ < quiet) return false;
  probed_at_ = now;
  return true;
}

bool LaneWriter::stalled_st(Nanoseconds now, Nanoseconds timeout) {
  watch(now);
  return outbound_ != nullptr && credit_.received < sent_ && now - quiet_since_ >= timeout;
}

}  // namespace asyncmesh
