#include "transport/ucx/ucx_lane.h"

#include <utility>

namespace asyncmesh::transport {

UcxOffer expected_offer(UcxEngine engine, Epoch epoch, LaneId lane, const LaneGeometry& geometry) {
  UcxOffer offer;
  offer.engine = engine;
  offer.epoch = epoch;
  offer.lane = lane;
  offer.slots = geometry.slots;
  offer.slot_bytes = geometry.slot_bytes;
  return offer;
}

UcxInbound::UcxInbound(UcxLink& link, LaneId lane, const LaneGeometry& geometry, InboundSink& sink)
    : link_(&link),
      lane_(lane),
      geometry_(geometry),
      sink_(sink),
      credit_slot_(std::make_shared<ControlSlot>()) {
  link.add(this);
}

UcxOffer UcxInbound::lane_offer() const {
  return expected_offer(link_->domain().identity().engine, link_->epoch(), lane_, geometry_);
}

Code UcxInbound::send_credit(const Credit& credit) {
  if (link_ == nullptr) return Code::kLinkError;
  // Frames may be read before the writer's hello has come. Its credit leaves with the connection.
  if (link_->endpoint() == nullptr && !link_->failed()) {
    credit_owed_ = true;
    owed_credit_ = credit;
    return Code::kOk;
  }
  link_->step(FrameStep::kBeforeCredit, lane_, credit.released);
  ControlMessage message;
  message.kind = ControlKind::kCredit;
  message.lane = lane_;
  message.counts[0] = credit.received;
  message.counts[1] = credit.taken;
  message.counts[2] = credit.released;
  const Code code = link_->send_control(*credit_slot_, message);
  link_->step(FrameStep::kAfterCredit, lane_, credit.released);
  return code;
}

void UcxInbound::connected() {
  if (std::exchange(credit_owed_, false)) send_credit(owed_credit_);
}

void UcxInbound::detach() {
  if (link_ == nullptr) return;
  stop();
  link_->connection().keep(std::move(credit_slot_));
  link_->remove(this);
  link_ = nullptr;
}

UcxOutbound::UcxOutbound(UcxLink& link, LaneId lane, const LaneGeometry& geometry,
                         OutboundSink& sink)
    : link_(&link), lane_(lane), geometry_(geometry), sink_(sink) {
  link.add(this);
}

void UcxOutbound::detach() {
  if (link_ == nullptr) return;
  link_->remove(this);
  link_ = nullptr;
}

}  // namespace asyncmesh::transport
