#include "channel/channel.h"

#include <algorithm>
#include <cstring>

namespace asyncmesh {
namespace {

struct WireMeta {
  uint8_t dtype;
  uint8_t dimensions;
  uint8_t zero[6];
  uint64_t micro_batch;
  uint64_t version;
  uint32_t shape[kMaxDimensions];
};
static_assert(sizeof(WireMeta) == kMetaBytes);
static_assert(offsetof(WireMeta, dimensions) == 1 && offsetof(WireMeta, micro_batch) == 8 &&
              offsetof(WireMeta, version) == 16 && offsetof(WireMeta, shape) == 24);

PortConfig port_config(const ChannelConfig& config) {
  PortConfig port;
  (config.sender ? port.outbound : port.inbound).push_back(config.peer);
  port.slots = config.slots;
  port.payload_bytes = config.payload_bytes;
  port.checksum = config.checksum;
  // A sender that may have K frames untaken must hear of takes before it ran out of K.
  if (config.max_untaken != 0) {
    port.credit_takes = std::max(1U, std::min(config.max_untaken, config.slots) / 2);
  }
  return port;
}

bool known(ChannelKind kind) {
  switch (kind) {
    case ChannelKind::kTrain:
    case ChannelKind::kEvaluate:
    case ChannelKind::kControl:
      return true;
  }
  return false;
}

void write_meta(const ChannelMeta& meta, std::byte* out) {
  WireMeta wire{};
  wire.dtype = meta.dtype;
  wire.dimensions = meta.dimensions;
  wire.micro_batch = meta.micro_batch;
  wire.version = meta.version;
  std::copy(meta.shape.begin(), meta.shape.end(), wire.shape);
  std::memcpy(out, &wire, sizeof wire);
}

bool read_meta(const FrameHeader& header, ChannelMeta* meta_out) {
  WireMeta wire;
  std::memcpy(&wire, header.meta, sizeof wire);
  ChannelMeta meta;
  meta.kind = static_cast<ChannelKind>(header.kind);
  meta.dtype = wire.dtype;
  meta.dimensions = wire.dimensions;
  meta.micro_batch = wire.micro_batch;
  meta.version = wire.version;
  std::copy(std::begin(wire.shape), std::end(wire.shape), meta.shape.begin());
  if (!known(meta.kind) || meta.dimensions > kMaxDimensions) return false;
  *meta_out = meta;
  return true;
}

}  // namespace

Channel::Channel(const ChannelConfig& config, const Clock& clock, Submitter& submitter)
    : config_(config), port_(std::make_unique<Port>(port_config(config), clock, submitter)) {
  config_.slots = port_->config().slots;
  if (config_.max_untaken == 0) config_.max_untaken = config_.slots;
  sent_versions_.resize(config_.slots, 0);
}

bool Channel::within_bounds(uint64_t version) const noexcept {
  // Asked once: the owner may publish credit at any moment, and the two must agree.
  const uint64_t untaken = port_->untaken(0);
  if (untaken >= config_.max_untaken) return false;
  if (config_.max_versions == 0 || untaken == 0) return true;
  const uint64_t oldest = sent_versions_[(port_->posted(0) - untaken) & (config_.slots - 1)];
  return version <= oldest || version - oldest <= config_.max_versions;
}

Code Channel::send(const ChannelMeta& meta, const void* payload, uint32_t bytes) noexcept {
  if (!config_.sender) return Code::kInvalidState;
  if (bytes > config_.payload_bytes) return Code::kTooLarge;
  if (meta.dimensions > kMaxDimensions) return Code::kInvalidArgument;
  if (port_->outbound_state(0) == LaneState::kDead) return Code::kPeerLost;
  if (!within_bounds(meta.version)) return port_->refuse();
  Port::Claim claim;
  if (const Code code = port_->claim(0, &claim); code != Code::kOk) return code;
  write_meta(meta, claim.meta);
  if (bytes > 0) std::memcpy(claim.payload, payload, bytes);
  sent_versions_[port_->posted(0) & (config_.slots - 1)] = meta.version;
  version_ = std::max(version_, meta.version);
  port_->commit(claim, 0, bytes, static_cast<uint8_t>(meta.kind));
  return Code::kOk;
}

Code Channel::receive(ChannelFrame* frame_out) noexcept {
  if (config_.sender) return Code::kInvalidState;
  // Before the inbox: once dead, everything that will ever come lies there.
  const bool dead = port_->inbound_state(0) == LaneState::kDead;
  Received received;
  while (port_->receive(&received) == Code::kOk) {
    ChannelMeta meta;
    if (!read_meta(received.header, &meta)) {
      ++malformed_;
      port_->release(received);
      continue;
    }
    const auto staleness = static_cast<int64_t>(version_ - meta.version);
    note_staleness(staleness);
    *frame_out = ChannelFrame{meta, received.payload, received.header.bytes, staleness, received};
    return Code::kOk;
  }
  return dead ? Code::kPeerLost : Code::kAgain;
}

void Channel::note_staleness(int64_t staleness) noexcept {
  const int64_t bucket = std::clamp<int64_t>(staleness, 0, kStalenessBuckets - 1);
  ++histogram_[static_cast<size_t>(bucket)];
}

void Channel::release(const ChannelFrame& frame) noexcept { port_->release(frame.received); }

bool Channel::ready() const noexcept {
  if (!config_.sender) return port_->readable();
  return within_bounds(version_) && port_->writable(0);
}

}  // namespace asyncmesh
