#include "lane/port.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace asyncmesh {
namespace {

PortConfig normalized(PortConfig config) {
  config.slots = std::bit_ceil(std::max(2U, config.slots));
  return config;
}

// A port that only reads packs nothing.
uint32_t buffers_for(const PortConfig& config) {
  return config.outbound.empty() && !config.inbound.empty() ? 0 : 2 * config.slots;
}

}  // namespace

Port::Port(const PortConfig& config, const Clock& clock, Submitter& submitter)
    : config_(normalized(config)),
      clock_(clock),
      submitter_(submitter),
      staging_(std::make_shared<StagingPool>(buffers_for(config_), geometry().slot_bytes)),
      // Every lane has at most `slots` frames that are not released; half of the ring is spare.
      inbox_(size_t{2} * config_.slots * config_.inbound.size()),
      muted_(config_.outbound.size(), 0),
      muted_st_(config_.outbound.size(), 0) {
  for (size_t i = 0; i < config_.outbound.size(); ++i) {
    writers_.push_back(std::make_unique<LaneWriter>(config_.slots, *staging_));
  }
  for (uint32_t i = 0; i < config_.inbound.size(); ++i) {
    const Origin origin{i, config_.inbound[i]};
    readers_.push_back(
        std::make_unique<LaneReader>(origin, geometry(), config_.credit_takes, inbox_));
  }
}

Port::~Port() = default;

uint32_t Port::max_submissions() const {
  const auto outbound = static_cast<uint32_t>(config_.outbound.size());
  const auto inbound = static_cast<uint32_t>(config_.inbound.size());
  return staging_->buffers() + config_.slots * inbound + outbound;
}

bool Port::is_target(uint32_t lane) const noexcept {
  return muted_[lane] == 0 && writers_[lane]->state() != LaneState::kDead;
}

Code Port::ask_lanes(uint32_t lane) const noexcept {
  if (lane != kAllLanes) {
    if (writers_[lane]->state() == LaneState::kDead) return Code::kPeerLost;
    return writers_[lane]->has_credit(claims_) ? Code::kOk : Code::kAgain;
  }
  Code code = Code::kPeerLost;
  for (uint32_t i = 0; i < writers_.size(); ++i) {
    if (!is_target(i)) continue;
    if (!writers_[i]->has_credit(claims_)) return Code::kAgain;
    code = Code::kOk;
  }
  return code;
}

Code Port::claim(uint32_t lane, Claim* claim_out) noexcept {
  const Code code = ask_lanes(lane);
  if (code == Code::kPeerLost) return code;
  if (code == Code::kAgain) return refuse();
  return take_buffer(claim_out);
}

Code Port::claim_buffer(Claim* claim_out) noexcept { return take_buffer(claim_out); }

Code Port::take_buffer(Claim* claim_out) noexcept {
  uint32_t buffer = 0;
  if (!staging_->claim(&buffer)) return refuse();
  if (refused_since_ != kNever) {
    counters_.blocked_ns += clock_.now() - refused_since_;
    refused_since_ = kNever;
  }
  ++claims_;
  std::byte* frame = staging_->data(buffer);
  *claim_out = Claim{buffer, frame + offsetof(FrameHeader, meta), frame + kFrameHeaderBytes};
  return Code::kOk;
}

Code Port::refuse() noexcept {
  ++counters_.refused;
  if (refused_since_ == kNever) refused_since_ = clock_.now();
  return Code::kAgain;
}

void Port::commit(const Claim& claim, uint32_t lane, uint32_t payload_bytes,
                  uint8_t kind) noexcept {
  assert(payload_bytes <= config_.payload_bytes);
  uint32_t targets = 0;
  if (lane != kAllLanes) {
    targets = writers_[lane]->state() != LaneState::kDead ? 1 : 0;
    if (targets != 0) writers_[lane]->note_posted();
  } else {
    for (uint32_t i = 0; i < writers_.size(); ++i) {
      if (!is_target(i)) continue;
      writers_[i]->note_posted();
      ++targets;
    }
  }
  if (targets == 0) {
    abandon(claim);
    return;
  }
  --claims_;
  seal_frame(staging_->data(claim.frame), payload_bytes, kind, config_.checksum);
  const auto bytes = static_cast<uint32_t>(kFrameHeaderBytes) + payload_bytes;
  submitter_.submit(Submission::send(this, lane, claim.frame, bytes));
}

void Port::abandon(const Claim& claim) noexcept {
  --claims_;
  staging_->unclaim(claim.frame);
}

void Port::mute(uint32_t lane) noexcept {
  if (muted_[lane] != 0) return;
  muted_[lane] = 1;
  submitter_.submit(Submission::mute(this, lane));
}

bool Port::writable(uint32_t lane) const noexcept {
  return ask_lanes(lane) == Code::kOk && staging_->available();
}

Code Port::receive(Received* received_out) noexcept {
  if (!inbox_.pop(received_out)) return Code::kAgain;
  readers_[received_out->origin.lane]->note_taken();
  return Code::kOk;
}

void Port::release(const Received& received) noexcept {
  submitter_.submit(Submission::release(this, received.origin.lane, received.sequence));
}

void Port::execute_st(const Submission& submission) {
  const uint32_t lane = submission.lane();
  switch (submission.kind()) {
    case Submission::Kind::kRelease:
      readers_[lane]->release_st(submission.sequence());
      return;
    case Submission::Kind::kMute:
      muted_st_[lane] = 1;
      return;
    case Submission::Kind::kSend:
      if (lane == kAllLanes) {
        broadcast_st(submission.buffer(), submission.bytes());
      } else {
        staging_->retain_st(submission.buffer(), 1);
        writers_[lane]->append_st(submission.buffer(), submission.bytes());
      }
      return;
  }
}

void Port::broadcast_st(uint32_t buffer, uint32_t bytes) {
  // A lane that died since the commit is in the count and drops its reference in append_st.
  const auto muted = static_cast<uint32_t>(std::count(muted_st_.begin(), muted_st_.end(), 1));
  staging_->retain_st(buffer, static_cast<uint32_t>(writers_.size()) - muted);
  for (size_t i = 0; i < writers_.size(); ++i) {
    if (muted_st_[i] == 0) writers_[i]->append_st(buffer, bytes);
  }
}

void Port::fail_peer_st(Rank peer) {
  // Writers first: once a reader says that nothing more comes, nothing more goes either.
  for (size_t i = 0; i < writers_.size(); ++i) {
    if (config_.outbound[i] == peer) writers_[i]->fail_st();
  }
  for (size_t i = 0; i < readers_.size(); ++i) {
    if (config_.inbound[i] == peer) readers_[i]->fail_st();
  }
}

}  // namespace asyncmesh
