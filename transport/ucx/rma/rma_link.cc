#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/ucx/rma/rma_transport.h"

namespace asyncmesh::transport {

RmaLink::RmaLink(UcxWorker& worker, const Identity& identity, LinkSink& sink,
                 const UcxConfig& config)
    : UcxLink(worker, identity, sink, config.hook),
      direct_stores_(config.direct_stores),
      notice_slot_(std::make_unique<ControlSlot>()),
      doorbell_slot_(std::make_unique<ControlSlot>()) {}

RmaLink::~RmaLink() {
  close();
  worker_.retire(std::move(notice_slot_));
  worker_.retire(std::move(doorbell_slot_));
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
  auto outbound = std::make_unique<RmaOutbound>(*this, lane, geometry, sink);
  ASYNCMESH_RETURN_IF_ERROR(outbound->open(offer, direct_stores_));
  return std::unique_ptr<Outbound>(std::move(outbound));
}

std::string RmaLink::describe() const {
  return fmt::format("rma over {}{}", transports(), direct_ ? " (direct stores)" : "");
}

void RmaLink::on_control(const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::kCredit:
      return UcxLink::on_control(message);
    case ControlKind::kSleep:
      peer_asleep_ = true;
      if (message.counts[0] != committed_) ring();
      return;
    case ControlKind::kDoorbell:
      announced_ = false;
      doorbell_came_ = true;
      doorbell_ = message.counts[0];
      return;
  }
}

bool RmaLink::announce_sleep() {
  if (ring_due_ || doorbell_came_) return false;
  if (announced_ || inbound_.empty() || failed()) return true;
  ControlMessage notice;
  notice.kind = ControlKind::kSleep;
  notice.counts[0] = seen_;
  if (send_control(*notice_slot_, notice) != Code::kOk) return false;
  announced_ = true;
  return true;
}

[[gnu::noinline, gnu::cold]] void RmaLink::settle_doorbells() {
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
}

}  // namespace asyncmesh::transport
