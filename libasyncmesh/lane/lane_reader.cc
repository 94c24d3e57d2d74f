#include "lane/lane_reader.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace asyncmesh {

using transport::Credit;
using transport::Sequence;

LaneReader::LaneReader(Origin origin, const transport::LaneGeometry& geometry,
                       uint32_t credit_takes, SpscRing<Received>& inbox)
    : origin_(origin),
      geometry_(geometry),
      credit_takes_(credit_takes != 0 ? credit_takes : std::max(1U, geometry.slots / 2)),
      inbox_(inbox),
      early_(geometry.slots),
      done_(geometry.slots, 0) {
  assert(std::has_single_bit(geometry.slots) && geometry.slots >= 2);
  retired_.reserve(geometry.slots);
}

LaneReader::~LaneReader() = default;

void LaneReader::publish_state(LaneState state) noexcept {
  // Pairs with the acquire in `state`.
  published_state_.store(static_cast<uint32_t>(state), std::memory_order_release);
}

void LaneReader::open_st(std::unique_ptr<transport::Inbound> inbound) {
  if (state() == LaneState::kDead) return;
  close_st();
  inbound_ = std::move(inbound);
  inbound_from_ = next_;
  restate_ = true;
  publish_state(LaneState::kOpen);
}

void LaneReader::close_st() {
  if (state() == LaneState::kDead) return;
  publish_state(LaneState::kConnecting);
  retire();
}

void LaneReader::fail_st() {
  retire();
  publish_state(LaneState::kDead);
}

void LaneReader::retire() {
  // What waited for a predecessor was not published: the writer sends it again.
  std::fill(early_.begin(), early_.end(), Early{});
  early_count_ = 0;
  invalid_ = false;
  gap_since_ = kNever;
  owed_since_ = kNever;
  if (inbound_ == nullptr) return;
  inbound_->stop();
  const Sequence first_lent = std::max(inbound_from_, released_ + 1);
  if (first_lent < next_) retired_.push_back(Retired{std::move(inbound_), next_});
  inbound_.reset();
}

void LaneReader::on_frame(Sequence sequence, std::byte* slot, uint32_t bytes) {
  if (invalid_) return;  // the link is about to be reset: everything from next_ comes again
  if (sequence < next_) {
    ++counters_.duplicates;
    return;
  }
  if (sequence > released_ + geometry_.slots) {
    ++counters_.invalid;
    invalid_ = true;
    return;
  }
  if (sequence > next_) {
    Early& place = early(sequence);
    if (place.slot != nullptr) {
      ++counters_.duplicates;
      return;
    }
    place = Early{slot, bytes};
    ++early_count_;
    return;
  }
  if (!accept(slot, bytes)) return;
  while (early_count_ > 0) {
    const Early place = std::exchange(early(next_), Early{});
    if (place.slot == nullptr) return;
    --early_count_;
    if (!accept(place.slot, place.bytes)) return;
  }
}

bool LaneReader::accept(std::byte* slot, uint32_t bytes) {
  // Validated where the application will find it: a header is copied once.
  Received* const received = inbox_.back();
  assert(received != nullptr);
  const uint32_t readable = std::min(bytes, geometry_.slot_bytes);
  if (open_frame(slot, readable, &received->header) != Code::kOk) {
    ++counters_.invalid;
    invalid_ = true;
    return false;
  }
  received->payload = slot + kFrameHeaderBytes;
  received->origin = origin_;
  received->sequence = next_++;
  ++counters_.frames;
  counters_.bytes += received->header.bytes;
  inbox_.push();
  return true;
}

void LaneReader::release_st(Sequence sequence) {
  if (sequence <= released_ || sequence >= next_) return;
  done(sequence) = 1;
  while (released_ + 1 < next_ && done(released_ + 1) != 0) {
    ++released_;
    done(released_) = 0;
    // Slots of an Inbound that was stopped are not used again.
    if (inbound_ != nullptr && released_ >= inbound_from_) inbound_->release(released_);
  }
  if (!retired_.empty()) {
    std::erase_if(retired_, [this](const Retired& old) { return old.end <= released_ + 1; });
  }
}

Credit LaneReader::credit_st() const {
  // Pairs with the release in `note_taken`. A frame is taken before its release is submitted, so
  // released <= taken holds; published before it is taken, so taken <= received does.
  return Credit{next_ - 1, taken_.load(std::memory_order_acquire), released_};
}

bool LaneReader::credit_pending_st() const {
  return inbound_ != nullptr && (restate_ || credit_st() != sent_);
}

uint32_t LaneReader::flush_credit_st(Nanoseconds now, Nanoseconds quiet) {
  if (inbound_ == nullptr) return 0;
  const Credit credit = credit_st();
  if (!restate_ && credit == sent_) {
    owed_since_ = kNever;
    return 0;
  }
  const bool enough = restate_ || credit.released - sent_.released >= geometry_.slots / 2 ||
                      credit.taken - sent_.taken >= credit_takes_;
  if (!enough) {
    if (owed_since_ == kNever) owed_since_ = now;
    if (now - owed_since_ < quiet) return 0;
  }
  if (inbound_->send_credit(credit) != Code::kOk) return 0;
  sent_ = credit;
  restate_ = false;
  owed_since_ = kNever;
  ++counters_.credits;
  return 1;
}

Code LaneReader::fault_st(Nanoseconds now, Nanoseconds timeout) {
  if (invalid_) return Code::kLinkError;
  if (early_count_ == 0) {
    gap_since_ = kNever;
    return Code::kOk;
  }
  if (gap_since_ == kNever || gap_at_ != next_) {
    gap_since_ = now;
    gap_at_ = next_;
  }
  return now - gap_since_ >= timeout ? Code::kLinkError : Code::kOk;
}

}  // namespace asyncmesh
