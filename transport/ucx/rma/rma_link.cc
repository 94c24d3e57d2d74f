#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/ucx/rma/rma_transport.h"

namespace asyncmesh::transport {

RmaLink::RmaLink(UcxDomain& domain, const Identity& identity, LinkSink& sink,
                 const UcxConfig& config)
    : UcxLink(domain, identity, sink, config.hook),
      direct_stores_(config.direct_stores),
      notice_slot_(std::make_shared<ControlSlot>()),
      doorbell_slot_(std::make_shared<ControlSlot>()) {}

RmaLink::~RmaLink() {
  if (is_open()) {
    connection().keep(std::move(notice_slot_));
    connection().keep(std::move(doorbell_slot_));
  }
  close();
}

Result<std::unique_ptr<Inbound>> RmaLink::open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                       Sequence next, InboundSink& sink) {
  ASYNCMESH_RETURN_IF_ERROR(check_open(lane, geometry));
  auto inbound = std::make_unique<RmaInbound>(*this, lane, geometry, sink);
  ASYNCMESH_RETURN_IF_ERROR(inbound->open(next));
  return std::unique_ptr<Inbound>(std::move(inbound));
}

Result<std::unique_ptr<Outbound>> RmaLink::open_outbound(LaneId lane, const LaneGeometry& geometry,
                                                         std::span<const std::byte> offer,
                                                         OutboundSink& sink) {
  ASYNCMESH_RETURN_IF_ERROR(check_open(lane, geometry));
  auto parsed = parse_ucx_offer(offer, expected_offer(UcxEngine::kRma, epoch(), lane, geometry));
  if (!parsed.ok()) return parsed.status();
  ASYNCMESH_RETURN_IF_ERROR(connect(parsed.value().worker));
  auto outbound = std::make_unique<RmaOutbound>(*this, lane, geometry, sink);
  ASYNCMESH_RETURN_IF_ERROR(outbound->open(parsed.value(), direct_stores_));
  return std::unique_ptr<Outbound>(std::move(outbound));
}

std::string RmaLink::describe() const {
  return fmt::format("rma over {}{}", connection().transports(), direct_ ? " (direct stores)" : "");
}

void RmaLink::on_control(const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::kHello:
    case ControlKind::kCredit:
      return UcxLink::on_control(message);
    case ControlKind::kSleep:
      peer_asleep_ = true;
      if (message.counts[0] != committed_) ring();
      return;
    case ControlKind::kDoorbell:
      announced_ = false;
      doorbell_came_ = true;
      domain_.note_unsettled();
      doorbell_ = message.counts[0];
      return;
  }
}

bool RmaLink::arm() {
  const bool frame = std::any_of(inbound_.begin(), inbound_.end(), [](const UcxInbound* lane) {
    return static_cast<const RmaInbound*>(lane)->ready();
  });
  const bool credit = std::any_of(outbound_.begin(), outbound_.end(), [](const UcxOutbound* lane) {
    return static_cast<const RmaOutbound*>(lane)->credit_ready();
  });
  return !frame && !credit && announce_sleep() && connection().arm();
}

bool RmaLink::expects_commits() const {
  return !inbound_.empty() ||
         std::any_of(outbound_.begin(), outbound_.end(), [](const UcxOutbound* lane) {
           return static_cast<const RmaOutbound*>(lane)->reads_credit();
         });
}

// Before the peer has connected its hello will wake us; whoever writes a lane is connected.
bool RmaLink::announce_sleep() {
  if (ring_due_ || doorbell_came_) return false;
  if (announced_ || !expects_commits() || endpoint() == nullptr || failed()) return true;
  ControlMessage notice;
  notice.kind = ControlKind::kSleep;
  notice.counts[0] = seen_;
  if (send_control(*notice_slot_, notice) != Code::kOk) return false;
  announced_ = true;
  return true;
}

void RmaLink::settle() {
  if (ring_due_) ring();
  if (!doorbell_came_) return;
  doorbell_came_ = false;
  seen_ = std::max(seen_, doorbell_);
}

[[gnu::noinline, gnu::cold]] void RmaLink::ring() {
  ControlMessage bell;
  bell.kind = ControlKind::kDoorbell;
  bell.counts[0] = committed_;
  ring_due_ = send_control(*doorbell_slot_, bell) == Code::kAgain;
  peer_asleep_ = ring_due_;
  if (ring_due_) domain_.note_unsettled();
}

}  // namespace asyncmesh::transport
