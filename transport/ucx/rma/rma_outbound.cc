#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/copy_words.h"
#include "transport/ucx/rma/rma_lane.h"
#include "transport/ucx/rma/rma_transport.h"
#include "transport/ucx/rma/segment_guard.h"
#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {
namespace {

constexpr size_t kFirstLineBytes = kLine - kFrameLead;

// A short payload was written a moment ago, and goes in words (copy_words.h).
void copy_rest(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > kLine) {
    std::memcpy(to, from, bytes);
    return;
  }
  size_t done = 0;
  for (; done + sizeof(uint64_t) <= bytes; done += sizeof(uint64_t)) {
    copy_words(to + done, from + done, sizeof(uint64_t));
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}

// The line that the reader polls comes last, or it would be taken away in between.
void copy_frame(std::byte* slot, const std::byte* frame, size_t bytes) {
  if (bytes < kFirstLineBytes) [[unlikely]] {
    std::memcpy(slot, frame, bytes);
    return;
  }
  copy_rest(slot + kFirstLineBytes, frame + kFirstLineBytes, bytes - kFirstLineBytes);
  copy_words(slot, frame, kFirstLineBytes);
}

}  // namespace

RmaOutbound::RmaOutbound(RmaLink& link, LaneId lane, const LaneGeometry& geometry,
                         OutboundSink& sink)
    : UcxOutbound(link, lane, geometry, sink), rma_link_(&link), layout_(geometry) {}

Status RmaOutbound::open(const ParsedOffer& offer, bool direct_stores) {
  SegmentGuard guard;
  ASYNCMESH_RETURN_IF_ERROR(guard.hold(offer.offer.segment));
  take_ucx_log();
  ucp_rkey_h rkey = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(link_->endpoint(), offer.key.data(), &rkey);
  if (status != UCS_OK) {
    return ucx_error(Code::kUnsupported, "the reader's slots cannot be mapped here", status);
  }
  RmaPuts::Target target{link_->connection().worker(), offer.offer.arena, UniqueUcpRkey(rkey)};
  void* mapped = nullptr;
  const bool mappable = ucp_rkey_ptr(rkey, offer.offer.arena, &mapped) == UCS_OK;
  if (mappable && direct_stores) mapped_ = static_cast<std::byte*>(mapped);
  puts_ = std::make_shared<RmaPuts>(rma_link_, std::move(target), geometry_, &sink_);
  rma_link_->note_direct(mapped_ != nullptr);
  return {};
}

void RmaOutbound::credit(const Credit& credit) {
  if (credits_seen_ == 0) sink_.on_credit(credit);
  if (mapped_ == nullptr || reads_credit()) return;
  credit_block_ = RmaLayout::credit(mapped_);
  link_->domain().add_polled(this);
  credit_block_->announce();
}

void RmaOutbound::poll_credit() {
  const uint64_t number = credit_block_->number();
  rma_link_->note_seen(number - credits_seen_);
  credits_seen_ = number;
  sink_.on_credit(credit_block_->load());
}

Code RmaOutbound::send(Sequence sequence, const Frame& frame) {
  if (link_ == nullptr || link_->failed()) return Code::kLinkError;
  if (frame.bytes > geometry_.slot_bytes) return Code::kTooLarge;
  if (mapped_ == nullptr) return put(sequence, frame);
  std::byte* const line = mapped_ + layout_.commit(sequence);
  if (link_->hooked()) [[unlikely]] {
    store_in_steps(sequence, frame, line + kFrameLead);
  } else {
    copy_frame(line + kFrameLead, frame.data, frame.bytes);
  }
  std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(line));
  // Pairs with the acquire in RmaInbound::poll.
  word.store(commit_word(link_->epoch(), sequence), std::memory_order_release);
  link_->step(FrameStep::kAfterCommit, lane_, sequence);
  rma_link_->note_commit();
  sink_.on_sent(sequence);
  return Code::kOk;
}

void RmaOutbound::store_in_steps(Sequence sequence, const Frame& frame, std::byte* slot) {
  link_->step(FrameStep::kBeforeFrame, lane_, sequence);
  const size_t half = frame.bytes / 2;
  std::memcpy(slot, frame.data, half);
  link_->step(FrameStep::kInsideFrame, lane_, sequence);
  std::memcpy(slot + half, frame.data + half, frame.bytes - half);
  link_->step(FrameStep::kAfterFrame, lane_, sequence);
}

Code RmaOutbound::put(Sequence sequence, const Frame& frame) {
  link_->step(FrameStep::kBeforeFrame, lane_, sequence);
  const ucs_status_t status =
      puts_->send(link_->endpoint(), sequence, commit_word(link_->epoch(), sequence), frame,
                  link_->domain().staging(frame.staging));
  link_->step(FrameStep::kAfterCommit, lane_, sequence);
  if (status == UCS_OK) return Code::kOk;
  link_->fail("putting a frame", status);
  return Code::kLinkError;
}

// The mapping ends with the remote key, and that when nothing is in flight.
void RmaOutbound::detach() {
  if (link_ == nullptr) return;
  link_->domain().remove_polled(this);
  mapped_ = nullptr;
  credit_block_ = nullptr;
  if (puts_ != nullptr) {
    puts_->disown();
    link_->connection().keep(std::move(puts_));
  }
  UcxOutbound::detach();
}

}  // namespace asyncmesh::transport
