#include "core/frame_policy.h"

#include <cstring>

namespace asyncmesh::core {
namespace {

class ChannelPolicy final : public FramePolicy {
 public:
  ChannelPolicy(const ChannelConfig& config, const Clock& clock, Submitter& submitter)
      : channel_(config, clock, submitter) {}

  Port& port() override { return channel_.port(); }
  uint32_t payload_bytes() const override { return channel_.config().payload_bytes; }
  bool readable() const noexcept override { return !channel_.config().sender && channel_.ready(); }
  bool writable() const noexcept override { return channel_.config().sender && channel_.ready(); }

  Code send(const OutgoingFrame& frame) noexcept override {
    ChannelMeta meta;
    meta.kind = static_cast<ChannelKind>(frame.kind);
    meta.dtype = static_cast<uint8_t>(frame.dtype);
    meta.dimensions = static_cast<uint8_t>(frame.dimensions);
    meta.micro_batch = frame.micro_batch;
    meta.version = frame.version;
    meta.shape = frame.shape;
    return channel_.send(meta, frame.data, frame.bytes);
  }

  Code receive(uint64_t consumer_version, IncomingFrame* out) noexcept override {
    channel_.set_version(consumer_version);
    ChannelFrame frame;
    const Code code = channel_.receive(&frame);
    if (code != Code::kOk) return code;
    out->kind = static_cast<FrameKind>(frame.meta.kind);
    out->data = frame.payload;
    out->bytes = frame.bytes;
    out->micro_batch = frame.meta.micro_batch;
    out->version = frame.meta.version;
    out->dtype = frame.meta.dtype;
    out->dimensions = frame.meta.dimensions;
    out->shape = frame.meta.shape;
    out->source = frame.received.origin.source;
    out->staleness = frame.staleness;
    out->received = frame.received;
    return Code::kOk;
  }

  void release(const Received& received) noexcept override {
    ChannelFrame frame;
    frame.received = received;
    channel_.release(frame);
  }

 private:
  Channel channel_;
};

// A mailbox delta does not describe tensors: what a frame of the application says about itself
// travels before its payload.
struct MailboxPrefix {
  uint8_t kind;
  uint8_t dtype;
  uint8_t dimensions;
  uint8_t reserved[13];
  uint32_t shape[4];
};
static_assert(sizeof(MailboxPrefix) == 32, "keeps the payload aligned to 16");

class MailboxPolicy final : public FramePolicy {
 public:
  MailboxPolicy(const MailboxConfig& config, const Clock& clock, Submitter& submitter)
      : mailbox_(config, clock, submitter) {}

  Port& port() override { return mailbox_.port(); }
  uint32_t payload_bytes() const override {
    return mailbox_.payload_bytes() - static_cast<uint32_t>(sizeof(MailboxPrefix));
  }
  bool readable() const noexcept override { return mailbox_.port().readable(); }
  bool writable() const noexcept override {
    for (uint32_t member = 0; member < mailbox_.size(); ++member) {
      if (member == mailbox_.self() || !mailbox_.alive(member)) continue;
      const uint32_t lane = member < mailbox_.self() ? member : member - 1;
      if (!mailbox_.port().writable(lane)) return false;
    }
    return others_alive();
  }

  Code send(const OutgoingFrame& frame) noexcept override {
    if (frame.bytes > payload_bytes()) return Code::kTooLarge;
    if (!others_alive()) return Code::kPeerLost;
    Mailbox::Post post;
    if (const Code code = mailbox_.claim(&post); code != Code::kOk) return code;
    MailboxPrefix prefix{};
    prefix.kind = static_cast<uint8_t>(frame.kind);
    prefix.dtype = static_cast<uint8_t>(frame.dtype);
    prefix.dimensions = static_cast<uint8_t>(frame.dimensions);
    std::memcpy(prefix.shape, frame.shape.data(), sizeof prefix.shape);
    std::memcpy(post.values, &prefix, sizeof prefix);
    if (frame.bytes != 0) std::memcpy(post.values + sizeof prefix, frame.data, frame.bytes);
    DeltaMeta meta;
    meta.kind = DeltaKind::kUser;
    meta.round = frame.micro_batch;
    meta.step = frame.version;
    mailbox_.commit(post, meta, frame.bytes + static_cast<uint32_t>(sizeof prefix));
    return Code::kOk;
  }

  Code receive(uint64_t consumer_version, IncomingFrame* out) noexcept override {
    for (;;) {
      const bool alive = others_alive();  // before the look: then nothing more will come
      Delta delta;
      if (mailbox_.take(&delta) != Code::kOk) return alive ? Code::kAgain : Code::kPeerLost;
      if (unpack(delta, out)) {
        out->staleness = static_cast<int64_t>(consumer_version - delta.meta.step);
        return Code::kOk;
      }
      mailbox_.release(delta);
    }
  }

  void release(const Received& received) noexcept override {
    Delta delta;
    delta.received = received;
    mailbox_.release(delta);
  }

 private:
  bool others_alive() const noexcept {
    for (uint32_t member = 0; member < mailbox_.size(); ++member) {
      if (member != mailbox_.self() && mailbox_.alive(member)) return true;
    }
    return false;
  }

  bool unpack(const Delta& delta, IncomingFrame* out) const noexcept {
    MailboxPrefix prefix;
    if (delta.meta.kind != DeltaKind::kUser || delta.bytes < sizeof prefix) return false;
    std::memcpy(&prefix, delta.values, sizeof prefix);
    if (prefix.kind < 1 || prefix.kind > 3 || prefix.dimensions > 4) return false;
    out->kind = static_cast<FrameKind>(prefix.kind);
    out->data = delta.values + sizeof prefix;
    out->bytes = delta.bytes - static_cast<uint32_t>(sizeof prefix);
    out->micro_batch = delta.meta.round;
    out->version = delta.meta.step;
    out->dtype = prefix.dtype;
    out->dimensions = prefix.dimensions;
    std::memcpy(out->shape.data(), prefix.shape, sizeof prefix.shape);
    out->source = mailbox_.rank_of(delta.member);
    out->received = delta.received;
    return true;
  }

  mutable Mailbox mailbox_;  // port() of a mailbox is not const
};

}  // namespace

std::unique_ptr<FramePolicy> make_channel_policy(const ChannelConfig& config, const Clock& clock,
                                                 Submitter& submitter) {
  return std::make_unique<ChannelPolicy>(config, clock, submitter);
}

std::unique_ptr<FramePolicy> make_mailbox_policy(MailboxConfig config, const Clock& clock,
                                                 Submitter& submitter) {
  config.payload_bytes += static_cast<uint32_t>(sizeof(MailboxPrefix));
  return std::make_unique<MailboxPolicy>(config, clock, submitter);
}

}  // namespace asyncmesh::core
