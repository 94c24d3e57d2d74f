#include <atomic>
#include <utility>

#include "transport/ucx/rma/rma_lane.h"
#include "transport/ucx/rma/rma_transport.h"

namespace asyncmesh::transport {

RmaInbound::RmaInbound(RmaLink& link, LaneId lane, const LaneGeometry& geometry, InboundSink& sink)
    : UcxInbound(link, lane, geometry, sink), rma_link_(&link), layout_(geometry) {}

Status RmaInbound::open(Sequence next) {
  auto arena = allocate_arena(link_->domain().context(), layout_);
  if (!arena.ok()) return arena.status();
  arena_ = std::move(arena.value());
  next_ = next;
  auto packed = make_rma_offer(link_->domain().context(), arena_, lane_offer(),
                               link_->connection().address());
  if (!packed.ok()) return packed.status();
  offer_ = std::move(packed.value());
  return {};
}

// Nothing to do for UCX: the writer learns from the credit that the slot is free.
void RmaInbound::release(Sequence sequence) {
  if (link_ == nullptr) return;
  link_->step(FrameStep::kBeforeRelease, lane_, sequence);
  link_->step(FrameStep::kAfterRelease, lane_, sequence);
}

bool RmaInbound::ready() const {
  if (stopped_) return false;
  std::byte* const word = arena_.bytes().data() + layout_.commit(next_);
  // Pairs with the release in RmaOutbound::store. Equality, never order: any other value is another
  // lap, epoch or garbage.
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(word))
             .load(std::memory_order_acquire) == commit_word(link_->epoch(), next_);
}

uint32_t RmaInbound::poll() {
  uint32_t frames = 0;
  for (; ready(); ++frames) {
    const Sequence sequence = next_++;
    rma_link_->note_seen();
    sink_.on_frame(sequence, arena_.bytes().data() + layout_.slot(sequence), geometry_.slot_bytes);
  }
  return frames;
}

}  // namespace asyncmesh::transport
