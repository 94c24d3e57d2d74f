#include "transport/ucx/ucx_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "transport/ucx/ucx_lane.h"
#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {

UcxLink::UcxLink(UcxDomain& domain, const Identity& identity, LinkSink& sink, FrameHook hook)
    : domain_(domain),
      identity_(identity),
      sink_(sink),
      hook_(hook),
      hello_slot_(std::make_shared<ControlSlot>()) {}

UcxLink::~UcxLink() { close(); }

Status UcxLink::open() {
  auto connection = domain_.open_connection(this);
  if (!connection.ok()) return connection.status();
  connection_ = std::move(connection.value());
  domain_.add_link(this);
  return {};
}

Status UcxLink::connect(std::span<const std::byte> worker_address) {
  if (endpoint() != nullptr) return {};
  take_ucx_log();
  connecting_ = true;
  const ucs_status_t status = connection_->connect(worker_address);
  connecting_ = false;
  if (status != UCS_OK) {
    const bool unreachable = status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED;
    return ucx_error(unreachable ? Code::kUnsupported : Code::kLinkError,
                     fmt::format("connecting to rank {}", identity_.peer), status);
  }
  ControlMessage hello;
  hello.kind = ControlKind::kHello;
  const Code code = send_control(*hello_slot_, hello, connection_->address());
  if (code != Code::kOk) return {code, failure_.text()};
  for (UcxInbound* lane : inbound_) lane->connected();
  return {};
}

void UcxLink::close() {
  const auto inbound = std::exchange(inbound_, {});
  const auto outbound = std::exchange(outbound_, {});
  for (UcxInbound* lane : inbound) lane->detach();
  for (UcxOutbound* lane : outbound) lane->detach();
  if (connection_ == nullptr) return;
  domain_.remove_link(this);
  connection_->keep(std::move(hello_slot_));
  domain_.close_connection(std::move(connection_));
}

[[gnu::noinline, gnu::cold]] void UcxLink::fail(std::string_view what, ucs_status_t status) {
  if (failed_) return;
  failed_ = true;
  failure_ = ucx_error(Code::kLinkError, what, status);
  domain_.note_failure();
}

void UcxLink::deliver_failure() {
  if (!failed_ || told_) return;
  told_ = true;
  sink_.on_link_down(identity_.peer, identity_.epoch, failure_);
}

Code UcxLink::send_control(ControlSlot& slot, ControlMessage message,
                           std::span<const std::byte> payload) {
  if (failed_) return Code::kLinkError;
  if (endpoint() == nullptr) return Code::kAgain;
  message.node = domain_.identity().node;
  message.epoch = identity_.epoch;
  ucs_status_t status = UCS_OK;
  const Code code = slot.send(endpoint(), message, payload, &status);
  if (code == Code::kLinkError) fail("sending a control message", status);
  return code;
}

void UcxLink::receive_control(const ControlMessage& message, std::span<const std::byte> payload) {
  const bool ours = message.magic == kControlMagic && message.node == identity_.peer_node &&
                    message.epoch == identity_.epoch;
  if (!ours || failed_) return;
  if (message.kind != ControlKind::kHello) return on_control(message);
  if (endpoint() == nullptr) peer_worker_.assign(payload.begin(), payload.end());
}

// The answer to a hello is not made inside UCX's callback: it creates an endpoint.
uint32_t UcxLink::progress() {
  const uint32_t events = connection_->progress();
  if (peer_worker_.empty() || failed_) [[likely]]
    return events;
  const Status connected = connect(std::exchange(peer_worker_, {}));
  if (!connected.ok()) fail(connected.text(), UCS_ERR_UNREACHABLE);
  return events + 1;
}

void UcxLink::on_control(const ControlMessage& message) {
  if (message.kind != ControlKind::kCredit) return;
  for (UcxOutbound* lane : outbound_) {
    if (lane->lane() != message.lane) continue;
    return lane->credit({message.counts[0], message.counts[1], message.counts[2]});
  }
}

// A sink may open a lane meanwhile, hence no iterators.
uint32_t UcxLink::poll_lanes() {
  uint32_t frames = 0;
  for (size_t index = 0; index < inbound_.size(); ++index) frames += inbound_[index]->poll();
  return frames;
}

Status UcxLink::check_open(LaneId lane, const LaneGeometry& geometry) const {
  if (failed_) return {Code::kLinkError, failure_.text()};
  const bool valid = geometry.slots >= 2 && std::has_single_bit(geometry.slots) &&
                     geometry.slot_bytes > 0 && geometry.stride() % 64 == 0;
  if (valid) return {};
  return {Code::kInvalidArgument,
          fmt::format("lane {}: {} slots of {} bytes", lane, geometry.slots, geometry.slot_bytes)};
}

}  // namespace asyncmesh::transport
