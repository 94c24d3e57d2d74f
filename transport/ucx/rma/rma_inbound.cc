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
  auto packed = make_rma_offer(link_->domain().context(), arena_, lane_offer(),
                               link_->connection().address());
  if (!packed.ok()) return packed.status();
  offer_ = std::move(packed.value());
  credit_block_ = RmaLayout::credit(arena_.bytes().data());
  expect(next);
  link_->domain().add_polled(this);
  return {};
}

// Nothing to do for UCX: the writer learns from the credit that the slot is free.
void RmaInbound::release(Sequence sequence) {
  if (link_ == nullptr) return;
  link_->step(FrameStep::kBeforeRelease, lane_, sequence);
  link_->step(FrameStep::kAfterRelease, lane_, sequence);
}

// No credit waits for the connection any more where the writer reads here: one came over it.
Code RmaInbound::send_credit(const Credit& credit) {
  if (link_ == nullptr || link_->failed() || !credit_block_->read_here()) {
    return UcxInbound::send_credit(credit);
  }
  link_->step(FrameStep::kBeforeCredit, lane_, credit.released);
  credit_block_->store(credit, ++credits_stored_);
  link_->step(FrameStep::kAfterCredit, lane_, credit.released);
  rma_link_->note_commit();
  return Code::kOk;
}

void RmaInbound::detach() {
  if (link_ == nullptr) return;
  link_->domain().remove_polled(this);
  UcxInbound::detach();
}

void RmaInbound::expect(Sequence sequence) {
  next_ = sequence;
  awaited_word_ = reinterpret_cast<uint64_t*>(arena_.bytes().data() + layout_.commit(sequence));
  awaited_value_ = commit_word(link_->epoch(), sequence);
}

uint32_t RmaInbound::poll() {
  uint32_t frames = 0;
  for (; ready(); ++frames) {
    const Sequence sequence = next_;
    std::byte* const slot = reinterpret_cast<std::byte*>(awaited_word_) + kFrameLead;
    __builtin_prefetch(slot + kLine);  // the payload, still in the writer's cache
    expect(sequence + 1);
    rma_link_->note_seen(1);
    sink_.on_frame(sequence, slot, geometry_.slot_bytes);
  }
  return frames;
}

}  // namespace asyncmesh::transport
