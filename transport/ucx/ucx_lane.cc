#include "transport/ucx/ucx_lane.h"

#include <utility>

namespace asyncmesh::transport {

UcxInbound::UcxInbound(UcxLink& link, LaneId lane, const LaneGeometry& geometry, InboundSink& sink)
    : link_(&link),
      worker_(link.worker()),
      lane_(lane),
      geometry_(geometry),
      sink_(sink),
      credit_slot_(std::make_unique<ControlSlot>()) {
  link.add(this);
}

UcxInbound::~UcxInbound() {
  if (link_ != nullptr) link_->remove(this);
  worker_.retire(std::move(credit_slot_));
}

Code UcxInbound::send_credit(const Credit& credit) {
  if (link_ == nullptr) return Code::kLinkError;
  link_->step(FrameStep::kBeforeCredit, lane_, credit.released);
  ControlMessage message;
  message.kind = ControlKind::kCredit;
  message.lane = lane_;
  message.counts[0] = credit.received;
  message.counts[1] = credit.taken;
  message.counts[2] = credit.released;
  const Code code = link_->send_control(*credit_slot_, message);
  if (link_ != nullptr) link_->step(FrameStep::kAfterCredit, lane_, credit.released);
  return code;
}

void UcxInbound::detach() {
  stop();
  link_ = nullptr;
}

UcxOutbound::UcxOutbound(UcxLink& link, LaneId lane, const LaneGeometry& geometry,
                         OutboundSink& sink)
    : link_(&link), worker_(link.worker()), lane_(lane), geometry_(geometry), sink_(sink) {
  link.add(this);
}

UcxOutbound::~UcxOutbound() {
  if (link_ != nullptr) link_->remove(this);
}

}  // namespace asyncmesh::transport
