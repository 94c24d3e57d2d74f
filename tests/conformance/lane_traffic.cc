#include "tests/conformance/lane_traffic.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/conformance/seam_lane.h"

namespace asyncmesh::conformance {
namespace {

constexpr uint8_t kTrafficKind = 7;

}  // namespace

LaneTraffic::LaneTraffic(Port& port, uint64_t own_key, uint64_t peer_key, uint64_t total)
    : port_(port), own_key_(own_key), peer_key_(peer_key), total_(total), random_(own_key) {}

uint32_t LaneTraffic::step() {
  uint32_t moved = 0;
  while (send()) ++moved;
  while (receive()) ++moved;
  release_some();
  return moved;
}

bool LaneTraffic::send() {
  Port::Claim claim;
  if (sent_ == total_ || port_.claim(0, &claim) != Code::kOk) return false;
  ++sent_;
  const uint32_t bytes = frame_length(own_key_, sent_, port_.config().payload_bytes);
  std::memset(claim.meta, 0, kMetaBytes);
  std::memcpy(claim.meta, &sent_, sizeof(sent_));
  fill_frame(own_key_, sent_, claim.payload, bytes);
  port_.commit(claim, 0, bytes, kTrafficKind);
  return true;
}

bool LaneTraffic::receive() {
  Received frame;
  if (port_.receive(&frame) != Code::kOk) return false;
  ++received_;
  uint64_t number = 0;
  std::memcpy(&number, frame.header.meta, sizeof(number));
  const uint32_t bytes = frame_length(peer_key_, received_, port_.config().payload_bytes);
  if (number != received_ || frame.sequence != received_) {
    error_ =
        fmt::format("frame {} (sequence {}) came as number {}", number, frame.sequence, received_);
  } else if (frame.header.kind != kTrafficKind || frame.header.bytes != bytes ||
             !frame_matches(peer_key_, received_, frame.payload, bytes)) {
    error_ = fmt::format("frame {} is damaged", number);
  }
  held_.push_back(frame);
  return true;
}

void LaneTraffic::release_some() {
  // Nothing is held for ever, else the writer had no credit.
  while (!held_.empty() && (received_ == total_ || random_.below(3) != 0)) {
    const size_t pick = random_.below(held_.size());
    const Received& frame = held_[pick];
    // Lent means unchanged until now, over any reset in between.
    if (!frame_matches(peer_key_, frame.sequence, frame.payload, frame.header.bytes))
      error_ = fmt::format("frame {} changed while it was lent", frame.sequence);
    port_.release(frame);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(pick));
  }
}

}  // namespace asyncmesh::conformance
