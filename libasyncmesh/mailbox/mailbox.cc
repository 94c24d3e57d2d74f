#include "mailbox/mailbox.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace asyncmesh {
namespace {

struct WireMeta {
  uint8_t encoding;
  uint8_t flags;
  uint8_t zero[2];
  uint32_t piece;
  uint32_t pieces;
  float weight;
  uint64_t round;
  uint64_t step;
  uint64_t count;
};
static_assert(sizeof(WireMeta) == kMetaBytes);
static_assert(offsetof(WireMeta, flags) == 1 && offsetof(WireMeta, piece) == 4 &&
              offsetof(WireMeta, pieces) == 8 && offsetof(WireMeta, weight) == 12 &&
              offsetof(WireMeta, round) == 16 && offsetof(WireMeta, step) == 24 &&
              offsetof(WireMeta, count) == 32);

PortConfig port_config(const MailboxConfig& config) {
  PortConfig port;
  for (const Rank rank : config.members) {
    if (rank != config.self) port.outbound.push_back(rank);
  }
  port.inbound = port.outbound;
  port.slots = config.slots;
  port.payload_bytes = config.payload_bytes;
  port.checksum = config.checksum;
  return port;
}

bool known(DeltaKind kind) {
  switch (kind) {
    case DeltaKind::kRound:
    case DeltaKind::kMean:
    case DeltaKind::kUser:
    case DeltaKind::kFinish:
      return true;
  }
  return false;
}

void write_meta(const DeltaMeta& meta, std::byte* out) {
  WireMeta wire{};
  wire.encoding = static_cast<uint8_t>(meta.encoding);
  wire.piece = meta.piece;
  wire.pieces = meta.pieces;
  wire.flags = meta.flags;
  wire.round = meta.round;
  wire.step = meta.step;
  wire.count = meta.count;
  wire.weight = meta.weight;
  std::memcpy(out, &wire, sizeof wire);
}

bool read_meta(const FrameHeader& header, DeltaMeta* meta_out) {
  WireMeta wire;
  std::memcpy(&wire, header.meta, sizeof wire);
  DeltaMeta meta;
  meta.kind = static_cast<DeltaKind>(header.kind);
  meta.encoding = static_cast<kernels::Encoding>(wire.encoding);
  meta.piece = wire.piece;
  meta.pieces = wire.pieces;
  meta.round = wire.round;
  meta.step = wire.step;
  meta.count = wire.count;
  meta.weight = wire.weight;
  meta.flags = wire.flags;
  if (!known(meta.kind) || !kernels::known(meta.encoding)) return false;
  if (meta.piece >= meta.pieces) return false;
  // The count first, two values to a byte at most: it bounds the multiplication.
  if (meta.count / 2 > header.bytes) return false;
  if (kernels::encoded_bytes(meta.encoding, meta.count) > header.bytes) return false;
  if (!std::isfinite(meta.weight) || meta.weight < 0) return false;
  *meta_out = meta;
  return true;
}

}  // namespace

Mailbox::Mailbox(const MailboxConfig& config, const Clock& clock, Submitter& submitter)
    : members_(config.members),
      self_(static_cast<uint32_t>(std::find(members_.begin(), members_.end(), config.self) -
                                  members_.begin())),
      payload_bytes_(config.payload_bytes),
      port_(std::make_unique<Port>(port_config(config), clock, submitter)) {
  assert(self_ < members_.size());
}

bool Mailbox::alive(uint32_t member) const noexcept {
  return member == self_ || port_->inbound_state(lane_of(member)) != LaneState::kDead;
}

Code Mailbox::claim(Post* post_out) noexcept {
  Port::Claim claim;
  Code code = port_->claim(kAllLanes, &claim);
  if (code == Code::kPeerLost) code = port_->claim_buffer(&claim);
  if (code == Code::kOk) *post_out = Post{claim, claim.payload};
  return code;
}

void Mailbox::commit(const Post& post, const DeltaMeta& meta, uint32_t bytes) noexcept {
  write_meta(meta, post.claim.meta);
  port_->commit(post.claim, kAllLanes, bytes, static_cast<uint8_t>(meta.kind));
}

void Mailbox::abandon(const Post& post) noexcept { port_->abandon(post.claim); }

void Mailbox::mute(uint32_t member) noexcept {
  if (member != self_) port_->mute(lane_of(member));
}

Code Mailbox::take(Delta* delta_out) noexcept {
  Received received;
  while (port_->receive(&received) == Code::kOk) {
    DeltaMeta meta;
    if (read_meta(received.header, &meta)) {
      *delta_out = Delta{meta, received.payload, received.header.bytes,
                         member_of(received.origin.lane), received};
      return Code::kOk;
    }
    ++malformed_;
    port_->release(received);
  }
  return Code::kAgain;
}

void Mailbox::release(const Delta& delta) noexcept { port_->release(delta.received); }

}  // namespace asyncmesh
