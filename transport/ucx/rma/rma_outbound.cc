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

// What was written a moment ago, a header and the first bytes of a payload, goes in words.
constexpr size_t kWordwiseBytes = 128;
constexpr size_t kFirstLineBytes = kLine - kCommitBytes;

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes, size_t wordwise) {
  const bool aligned = reinterpret_cast<uintptr_t>(from) % alignof(uint64_t) == 0;
  const size_t words = aligned ? std::min(bytes, wordwise) & ~(sizeof(uint64_t) - 1) : 0;
  copy_words(to, from, words);
  std::memcpy(to + words, from + words, bytes - words);
}

// The line that the reader polls comes last, or it would be taken away in between.
void copy_frame(std::byte* slot, const std::byte* frame, size_t bytes) {
  const size_t first = std::min(bytes, kFirstLineBytes);
  copy_bytes(slot + first, frame + first, bytes - first, kWordwiseBytes - kFirstLineBytes);
  copy_bytes(slot, frame, first, first);
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
  link_->step(FrameStep::kBeforeFrame, lane_, sequence);
  if (mapped_ == nullptr) return put(sequence, frame);
  store(sequence, frame);
  rma_link_->note_commit();
  sink_.on_sent(sequence);
  return Code::kOk;
}

void RmaOutbound::store(Sequence sequence, const Frame& frame) {
  std::byte* const slot = mapped_ + layout_.slot(sequence);
  if (link_->hooked()) [[unlikely]] {
    const size_t half = frame.bytes / 2;
    std::memcpy(slot, frame.data, half);
    link_->step(FrameStep::kInsideFrame, lane_, sequence);
    std::memcpy(slot + half, frame.data + half, frame.bytes - half);
    link_->step(FrameStep::kAfterFrame, lane_, sequence);
  } else {
    copy_frame(slot, frame.data, frame.bytes);
  }
  std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(mapped_ + layout_.commit(sequence)));
  // Pairs with the acquire in RmaInbound::poll.
  word.store(commit_word(link_->epoch(), sequence), std::memory_order_release);
  link_->step(FrameStep::kAfterCommit, lane_, sequence);
}

Code RmaOutbound::put(Sequence sequence, const Frame& frame) {
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
