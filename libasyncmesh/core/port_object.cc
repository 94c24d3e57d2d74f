#include "core/port_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace asyncmesh::core {
namespace {

constexpr uint32_t kDefaultSlots = 8;
constexpr uint32_t kMaxSlots = 1u << 16;
constexpr uint32_t kMaxPayloadBytes = 1u << 30;

void add(std::atomic<uint64_t>& total, uint64_t value) noexcept {
  total.store(total.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

Status check(const MeshSession& session, const PortSettings& settings) {
  const auto wrong = [](std::string text) {
    return Status(Code::kInvalidArgument, std::move(text));
  };
  const uint32_t slots = settings.slots == 0 ? kDefaultSlots : settings.slots;
  if (settings.role != PortRole::kMailbox &&
      (settings.peer >= session.world() || settings.peer == session.config().rank))
    return wrong(
        fmt::format("peer {}: not another rank of a world of {}", settings.peer, session.world()));
  if (!std::has_single_bit(slots) || slots < 2 || slots > kMaxSlots)
    return wrong(fmt::format("slots {}: not a power of two from 2 to {}", slots, kMaxSlots));
  if (settings.payload_bytes == 0 || settings.payload_bytes > kMaxPayloadBytes)
    return wrong(
        fmt::format("payload_bytes {}: not in 1..{}", settings.payload_bytes, kMaxPayloadBytes));
  if (settings.max_untaken > slots)
    return wrong(fmt::format("max_untaken {} exceeds the {} slots", settings.max_untaken, slots));
  return {};
}

MailboxConfig mailbox_config(const MeshSession& session, const PortSettings& settings) {
  MailboxConfig config;
  config.members = session.stage_members();
  config.self = session.config().rank;
  config.slots = settings.slots;
  config.payload_bytes = settings.payload_bytes;
  config.checksum = session.checksum();
  return config;
}

ChannelConfig channel_config(const MeshSession& session, const PortSettings& settings) {
  ChannelConfig config;
  config.peer = settings.peer;
  config.sender = settings.role == PortRole::kChannelOut;
  config.slots = settings.slots;
  config.payload_bytes = settings.payload_bytes;
  config.max_untaken = settings.max_untaken;
  config.max_versions = settings.max_versions;
  config.checksum = session.checksum();
  return config;
}

}  // namespace

LentFrames::LentFrames(size_t capacity) : entries_(capacity) {
  free_.reserve(capacity);
  for (size_t i = capacity; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
}

uint64_t LentFrames::lend(const Received& received) noexcept {
  const uint32_t index = free_.back();
  free_.pop_back();
  Entry& entry = entries_[index];
  entry.received = received;
  entry.lent = true;
  ++entry.generation;
  return uint64_t{entry.generation} << 32 | index;
}

bool LentFrames::take_back(uint64_t token, Received* received_out) noexcept {
  const auto index = static_cast<uint32_t>(token);
  if (index >= entries_.size()) return false;
  Entry& entry = entries_[index];
  if (!entry.lent || entry.generation != token >> 32) return false;
  entry.lent = false;
  *received_out = entry.received;
  free_.push_back(index);
  return true;
}

PortObject::PortObject(std::shared_ptr<MeshSession> session, const PortSettings& settings)
    : session_(std::move(session)),
      settings_(settings),
      queue_(session_->context().operations()),
      waiter_(session_->context()) {}

Result<std::unique_ptr<PortObject>> PortObject::open(const std::shared_ptr<MeshSession>& session,
                                                     const PortSettings& settings) {
  ASYNCMESH_RETURN_IF_ERROR(check(*session, settings));
  PortSettings complete = settings;
  if (complete.slots == 0) complete.slots = kDefaultSlots;
  std::unique_ptr<PortObject> port(new PortObject(session, complete));
  ASYNCMESH_RETURN_IF_ERROR(port->attach());
  return port;
}

Status PortObject::attach() {
  const Clock& clock = context().clock();
  policy_ = settings_.role == PortRole::kMailbox
                ? make_mailbox_policy(mailbox_config(*session_, settings_), clock, queue_)
                : make_channel_policy(channel_config(*session_, settings_), clock, queue_);
  Port& port = policy_->port();
  queue_.reserve(port.max_submissions());
  lent_ = std::make_unique<LentFrames>(port.config().inbound.size() * port.config().slots);
  ASYNCMESH_RETURN_IF_ERROR(context().add_port(this));
  const PortKind kind =
      settings_.role == PortRole::kMailbox ? PortKind::kMailbox : PortKind::kChannel;
  Status status = session_->attach({kind, settings_.tag}, port, failure_);
  if (!status.ok()) {
    context().remove_port(this);
    return status;
  }
  context().add_counters(this);
  attached_ = true;
  return {};
}

PortObject::~PortObject() {
  if (!attached_) return;
  context().remove_counters(this);
  context().remove_port(this);
  const Port& port = policy_->port();
  session_->detach(port, std::move(policy_));
}

Code PortObject::send(const OutgoingFrame& frame, Nanoseconds timeout) noexcept {
  Code code = policy_->send(frame);
  if (code == Code::kAgain) {
    wants_room_ = true;
    add(totals_.refused, 1);
    if (timeout == 0) return code;
    const Nanoseconds since = context().clock().now();
    const Nanoseconds deadline = deadline_after(context().clock(), timeout);
    while (code == Code::kAgain) {
      const Code waited = waiter_.wait(deadline);
      code = policy_->send(frame);
      if (code == Code::kAgain && waited != Code::kOk) code = waited;
    }
    add(totals_.blocked_ns, static_cast<uint64_t>(context().clock().now() - since));
  }
  if (code != Code::kOk) return code;
  wants_room_ = false;
  add(totals_.frames_sent, 1);
  add(totals_.bytes_sent, frame.bytes);
  return code;
}

Code PortObject::receive(uint64_t consumer_version, Nanoseconds timeout, IncomingFrame* frame_out,
                         uint64_t* token_out) noexcept {
  Code code = policy_->receive(consumer_version, frame_out);
  if (code == Code::kAgain) {
    if (timeout == 0) return code;
    const Nanoseconds since = context().clock().now();
    const Nanoseconds deadline = deadline_after(context().clock(), timeout);
    while (code == Code::kAgain) {
      const Code waited = waiter_.wait(deadline);
      code = policy_->receive(consumer_version, frame_out);
      if (code == Code::kAgain && waited != Code::kOk) code = waited;
    }
    add(totals_.blocked_ns, static_cast<uint64_t>(context().clock().now() - since));
  }
  if (code != Code::kOk) return code;
  *token_out = lent_->lend(frame_out->received);
  note_received(*frame_out);
  queue_.poke();  // the sender's bound counts what was taken: let the credit out
  return code;
}

void PortObject::note_received(const IncomingFrame& frame) noexcept {
  add(totals_.frames_received, 1);
  add(totals_.bytes_received, frame.bytes);
  const int64_t last = kStalenessBuckets - 1;
  const auto bucket = static_cast<size_t>(std::clamp<int64_t>(frame.staleness, 0, last));
  add(totals_.staleness[bucket], 1);
}

Code PortObject::release(uint64_t token) noexcept {
  Received received;
  if (!lent_->take_back(token, &received)) return Code::kInvalidArgument;
  policy_->release(received);
  return Code::kOk;
}

Status PortObject::explain(Code code) const {
  switch (code) {
    case Code::kPeerLost:
      return failure_.explain(code);
    case Code::kTooLarge:
      return Status(code, fmt::format("the frame is larger than payload_bytes = {}",
                                      policy_->payload_bytes()));
    case Code::kInvalidState:
      return Status(code, settings_.role == PortRole::kChannelOut
                              ? "this end of the channel sends, it does not receive"
                              : "this end of the channel receives, it does not send");
    case Code::kInvalidArgument:
      return Status(code, "not a token of a message that is lent, or more than 4 dimensions");
    case Code::kTimeout:
      return Status(code, "nothing moved before the timeout");
    default:
      return Status(code);
  }
}

bool PortObject::ready() noexcept {
  return policy_->readable() || (wants_room_ && policy_->writable());
}

void PortObject::read_counters(std::vector<Counter>& out) const {
  const auto put = [&](const char* name, const std::atomic<uint64_t>& value) {
    out.push_back(
        {fmt::format("port.{}.{}", settings_.key, name), value.load(std::memory_order_relaxed)});
  };
  if (settings_.role != PortRole::kChannelIn) {
    put("frames_sent", totals_.frames_sent);
    put("bytes_sent", totals_.bytes_sent);
    put("refused", totals_.refused);
  }
  put("blocked_ns", totals_.blocked_ns);
  if (settings_.role == PortRole::kChannelOut) return;
  put("frames_received", totals_.frames_received);
  put("bytes_received", totals_.bytes_received);
  for (size_t i = 0; i < totals_.staleness.size(); ++i)
    put(fmt::format("staleness.{}", i).c_str(), totals_.staleness[i]);
}

}  // namespace asyncmesh::core
