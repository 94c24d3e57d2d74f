#include <algorithm>

#include "transport/ucx/tag/tag_lane.h"
#include "transport/ucx/tag/tag_transport.h"
#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {
namespace {

constexpr size_t kAlignment = 64;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

ucp_tag_t make_tag(LaneId lane, Epoch epoch, Sequence sequence) {
  return (ucp_tag_t{lane} << 48) | (ucp_tag_t{epoch} << 32) | (sequence & UINT32_MAX);
}

TagReceives::TagReceives(const LaneGeometry& geometry, size_t request_bytes, TagInbound* lane)
    : geometry_(geometry),
      lane_(lane),
      mask_(geometry.slots - 1),
      request_bytes_(round_up(request_bytes)),
      request_stride_(request_bytes_ + kAlignment),
      slots_(geometry.slots * geometry.stride()),
      requests_(geometry.slots * request_stride_),
      receives_(geometry.slots) {
  for (Receive& receive : receives_) receive.owner = this;
}

ucs_status_t TagReceives::post(ucp_worker_h worker, Sequence sequence, ucp_tag_t tag) {
  const size_t index = sequence & mask_;
  Receive& receive = receives_[index];
  receive.sequence = sequence;
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                       UCP_OP_ATTR_FIELD_RECV_INFO;
  param.request = request(index);
  param.cb.recv = &TagReceives::on_received;
  param.user_data = &receive;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.recv_info.tag_info = &receive.info;
  const ucs_status_ptr_t posted =
      ucp_tag_recv_nbx(worker, slot(sequence), geometry_.slot_bytes, tag, ~ucp_tag_t{0}, &param);
  if (UCS_PTR_IS_PTR(posted)) {
    receive.posted = true;
    ++outstanding_;
    return UCS_INPROGRESS;
  }
  receive.complete = posted == nullptr;
  return UCS_PTR_STATUS(posted);
}

void TagReceives::cancel_all(ucp_worker_h worker) {
  for (size_t index = 0; index < receives_.size(); ++index) {
    receives_[index].complete = false;
    if (receives_[index].posted) ucp_request_cancel(worker, request(index));
  }
}

bool TagReceives::take(Sequence sequence, uint32_t* bytes_out) {
  Receive& receive = receives_[sequence & mask_];
  if (!receive.complete || receive.sequence != sequence) return false;
  receive.complete = false;
  *bytes_out = static_cast<uint32_t>(receive.info.length);
  return true;
}

void TagReceives::on_received(void*, ucs_status_t status, const ucp_tag_recv_info_t* info,
                              void* receive) {
  auto& done = *static_cast<Receive*>(receive);
  TagReceives& self = *done.owner;
  done.posted = false;
  --self.outstanding_;
  if (self.lane_ == nullptr || status == UCS_ERR_CANCELED) return;
  if (status != UCS_OK) return self.lane_->receive_failed(status);
  done.info = *info;
  done.complete = true;
  self.lane_->received();
}

TagInbound::TagInbound(TagLink& link, LaneId lane, const LaneGeometry& geometry, InboundSink& sink)
    : UcxInbound(link, lane, geometry, sink),
      tag_link_(&link),
      receives_(std::make_shared<TagReceives>(geometry, link.domain().request_bytes(), this)) {}

Status TagInbound::open(Sequence next) {
  offer_ = pack(lane_offer(), link_->connection().address(), {});
  next_ = next;
  for (Sequence sequence = next; sequence < next + geometry_.slots; ++sequence) {
    const ucs_status_t status = post(sequence);
    if (UCS_STATUS_IS_ERR(status)) return ucx_error(Code::kSystem, "posting receives", status);
  }
  return {};
}

ucs_status_t TagInbound::post(Sequence sequence) {
  const ucp_tag_t tag = make_tag(lane_, link_->epoch(), sequence);
  const ucs_status_t status = receives_->post(link_->connection().worker(), sequence, tag);
  if (status == UCS_OK) [[unlikely]]
    tag_link_->note_deferred();
  return status;
}

void TagInbound::release(Sequence sequence) {
  if (stopped_) return;
  link_->step(FrameStep::kBeforeRelease, lane_, sequence);
  const ucs_status_t status = post(sequence + geometry_.slots);
  if (UCS_STATUS_IS_ERR(status)) [[unlikely]]
    receive_failed(status);
  link_->step(FrameStep::kAfterRelease, lane_, sequence);
}

void TagInbound::stop() {
  if (stopped_) return;
  stopped_ = true;
  receives_->disown();
  receives_->cancel_all(link_->connection().worker());
}

void TagInbound::detach() {
  if (link_ == nullptr) return;
  UcxConnection& connection = link_->connection();
  UcxInbound::detach();
  connection.keep(receives_);
}

uint32_t TagInbound::poll() {
  uint32_t frames = 0;
  uint32_t bytes = 0;
  for (; !stopped_ && receives_->take(next_, &bytes); ++frames) {
    const Sequence sequence = next_++;
    sink_.on_frame(sequence, receives_->slot(sequence), bytes);
  }
  return frames;
}

void TagInbound::received() {
  if (tag_link_->connecting()) [[unlikely]] {
    tag_link_->note_deferred();
  } else {
    poll();
  }
}

void TagInbound::receive_failed(ucs_status_t status) {
  if (link_ != nullptr) link_->fail("receiving a frame", status);
}

}  // namespace asyncmesh::transport
