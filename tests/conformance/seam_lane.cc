#include "tests/conformance/seam_lane.h"

#include <fmt/format.h>

#include <cstring>

#include "base/random.h"

namespace asyncmesh::conformance {
namespace {

uint64_t word(uint64_t key, Sequence sequence, uint64_t index) {
  return mix(key ^ scramble(sequence), index);
}

}  // namespace

void fill_frame(uint64_t key, Sequence sequence, std::byte* data, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += 8) {
    const uint64_t value = word(key, sequence, at);
    std::memcpy(data + at, &value, std::min<size_t>(8, bytes - at));
  }
}

bool frame_matches(uint64_t key, Sequence sequence, const std::byte* data, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += 8) {
    const uint64_t value = word(key, sequence, at);
    if (std::memcmp(data + at, &value, std::min<size_t>(8, bytes - at)) != 0) return false;
  }
  return true;
}

uint32_t frame_length(uint64_t key, Sequence sequence, uint32_t slot_bytes) {
  CounterRandom random(key + 1, sequence * 2);
  // Small, full and empty frames are where transports differ.
  switch (random.below(4)) {
    case 0:
      return slot_bytes;
    case 1:
      return static_cast<uint32_t>(random.below(65));
    default:
      return static_cast<uint32_t>(random.below(slot_bytes + 1));
  }
}

SeamWriter::SeamWriter(uint64_t key, const LaneGeometry& geometry, Sequence first)
    : key_(key),
      geometry_(geometry),
      memory_(std::make_shared<std::vector<std::byte>>(geometry.slots * geometry.stride() + 64)),
      done_(geometry.slots, true),
      next_(first),
      sent_(first - 1),
      credit_{first - 1, first - 1, first - 1} {
  const auto address = reinterpret_cast<uintptr_t>(memory_->data());
  staging_ = memory_->data() + (64 - address % 64) % 64;
}

Status SeamWriter::attach(Transport& transport) {
  auto id = transport.register_staging({staging_, geometry_.slots * geometry_.stride()});
  if (!id.ok()) return id.status();
  staging_id_ = id.value();
  return Status();
}

bool SeamWriter::can_send() const {
  return next_ - credit_.released <= geometry_.slots && done_[next_ % geometry_.slots];
}

Code SeamWriter::send(uint32_t bytes) {
  const Sequence sequence = next_++;
  std::byte* data =
      staging_ + (sequence % geometry_.slots) * geometry_.stride() + transport::kFrameLead;
  fill_frame(key_, sequence, data, bytes);
  done_[sequence % geometry_.slots] = false;
  return outbound_->send(sequence, {data, bytes, staging_id_});
}

uint32_t SeamWriter::send_up_to(Sequence last) {
  uint32_t count = 0;
  while (next_ <= last && can_send()) {
    if (send(frame_length(key_, next_, geometry_.slot_bytes)) != Code::kOk) break;
    ++count;
  }
  return count;
}

void SeamWriter::on_sent(Sequence sequence) {
  if (sequence >= next_ || done_[sequence % geometry_.slots])
    error_ = fmt::format("on_sent({}) out of place", sequence);
  done_[sequence % geometry_.slots] = true;
  while (sent_ + 1 < next_ && done_[(sent_ + 1) % geometry_.slots]) ++sent_;
}

void SeamWriter::on_credit(const Credit& credit) {
  if (credit.received < credit_.received || credit.taken < credit_.taken ||
      credit.released < credit_.released)
    error_ = "credit went back";
  if (credit.received >= next_ || credit.taken > credit.received || credit.released > credit.taken)
    error_ = "credit for frames that were not sent";
  credit_ = credit;
}

SeamReader::SeamReader(uint64_t key, const LaneGeometry& geometry, Sequence first)
    : key_(key),
      geometry_(geometry),
      received_(first - 1),
      released_(first - 1),
      told_{first - 1, first - 1, first - 1} {
  arrivals_.reserve(geometry.slots);
}

void SeamReader::on_frame(Sequence sequence, std::byte* slot, uint32_t bytes) {
  if (sequence != received_ + 1)
    error_ = fmt::format("frame {} came after {}", sequence, received_);
  if (reinterpret_cast<uintptr_t>(slot) % 64 != transport::kFrameLead)
    error_ = "a slot's payload would not start a cache line";
  if (bytes > geometry_.slot_bytes) error_ = "frame is larger than its slot";
  received_ = sequence;
  arrivals_.push_back({sequence, slot, bytes});
}

bool SeamReader::intact(const Arrival& arrival, uint32_t bytes) const {
  const bool length = arrival.bytes == bytes || arrival.bytes == geometry_.slot_bytes;
  return length && frame_matches(key_, arrival.sequence, arrival.slot, bytes);
}

uint32_t SeamReader::take(uint32_t keep) {
  uint32_t moved = 0;
  while (arrivals_.size() > keep) {
    const Arrival& arrival = arrivals_.front();
    if (!intact(arrival, frame_length(key_, arrival.sequence, geometry_.slot_bytes)))
      error_ = fmt::format("frame {} is damaged", arrival.sequence);
    release_oldest();
    ++moved;
  }
  return moved + (send_credit() ? 1 : 0);
}

void SeamReader::discard() {
  while (!arrivals_.empty()) release_oldest();
  send_credit();
}

void SeamReader::release_oldest() {
  released_ = arrivals_.front().sequence;
  inbound_->release(released_);
  arrivals_.erase(arrivals_.begin());
}

bool SeamReader::send_credit() {
  const Credit credit{received_, released_, released_};
  if (credit == told_ || inbound_->send_credit(credit) != Code::kOk) return false;
  told_ = credit;
  return true;
}

}  // namespace asyncmesh::conformance
