#include <atomic>
#include <utility>

#include "transport/ucx/rma/rma_lane.h"
#include "transport/ucx/rma/rma_transport.h"

namespace asyncmesh::transport {

RmaInbound::RmaInbound(RmaLink& link, LaneId lane, const LaneGeometry& geometry, InboundSink& sink)
    : UcxInbound(link, lane, geometry, sink), rma_link_(&link), layout_(geometry) {}

Status RmaInbound::open(Sequence next) {
  auto arena = allocate_arena(worker_.context(), layout_);
  if (!arena.ok()) return arena.status();
  arena_ = std::move(arena.value());
  next_ = next;
  const RmaOffer offer{kRmaOfferMagic,  link_->epoch(),       lane_,
                       geometry_.slots, geometry_.slot_bytes, 0};
  auto packed = make_rma_offer(worker_.context(), arena_, offer);
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

uint32_t RmaInbound::poll() {
  uint32_t frames = 0;
  std::byte* const base = arena_.bytes().data();
  while (!stopped_) {
    const Sequence sequence = next_;
    std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(base + layout_.commit(sequence)));
    // Pairs with the release in RmaOutbound::store. Equality, never order: any other value is
    // another lap, epoch or garbage.
    if (word.load(std::memory_order_acquire) != commit_word(link_->epoch(), sequence)) break;
    next_ = sequence + 1;
    ++frames;
    rma_link_->note_seen();
    sink_.on_frame(sequence, base + layout_.slot(sequence), geometry_.slot_bytes);
  }
  return frames;
}

}  // namespace asyncmesh::transport
