#include <utility>

#include "transport/ucx/tag/tag_lane.h"

namespace asyncmesh::transport {

ucs_status_t TagSends::send(ucp_ep_h endpoint, ucp_tag_t tag, Sequence sequence, const Frame& frame,
                            ucp_mem_h memory) {
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH;
  param.cb.send = &TagSends::on_sent;
  param.user_data = this;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.memh = memory;
  const ucs_status_ptr_t request = ucp_tag_send_nbx(endpoint, frame.data, frame.bytes, tag, &param);
  if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request);
  static_cast<TagRequest*>(request)->sequence = sequence;
  ++outstanding_;
  return UCS_INPROGRESS;
}

// A send that failed says nothing to the sink: its frame stays retained, and the endpoint's error
// callback ends the link.
void TagSends::on_sent(void* request, ucs_status_t status, void* self) {
  auto& sends = *static_cast<TagSends*>(self);
  const Sequence sequence = static_cast<TagRequest*>(request)->sequence;
  --sends.outstanding_;
  ucp_request_free(request);
  if (status == UCS_OK && sends.sink_ != nullptr) sends.sink_->on_sent(sequence);
}

TagOutbound::TagOutbound(UcxLink& link, LaneId lane, const LaneGeometry& geometry,
                         OutboundSink& sink)
    : UcxOutbound(link, lane, geometry, sink), sends_(std::make_shared<TagSends>(&sink)) {}

Code TagOutbound::send(Sequence sequence, const Frame& frame) {
  if (link_ == nullptr || link_->failed()) return Code::kLinkError;
  if (frame.bytes > geometry_.slot_bytes) return Code::kTooLarge;
  link_->step(FrameStep::kBeforeFrame, lane_, sequence);
  const ucs_status_t status =
      sends_->send(link_->endpoint(), make_tag(lane_, link_->epoch(), sequence), sequence, frame,
                   link_->domain().staging(frame.staging));
  link_->step(FrameStep::kAfterFrame, lane_, sequence);
  if (status == UCS_OK) {
    sink_.on_sent(sequence);
  } else if (status != UCS_INPROGRESS) [[unlikely]] {
    link_->fail("sending a frame", status);
    return Code::kLinkError;
  }
  return Code::kOk;
}

void TagOutbound::detach() {
  if (link_ == nullptr) return;
  sends_->disown();
  link_->connection().keep(std::move(sends_));
  UcxOutbound::detach();
}

}  // namespace asyncmesh::transport
