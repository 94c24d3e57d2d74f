#include <utility>

#include "transport/ucx/rma/rma_lane.h"
#include "transport/ucx/rma/rma_transport.h"

namespace asyncmesh::transport {

RmaPuts::RmaPuts(RmaLink* link, Target target, const LaneGeometry& geometry, OutboundSink* sink)
    : link_(link),
      domain_(link->domain()),
      target_(std::move(target)),
      layout_(geometry),
      sink_(sink),
      mask_(geometry.slots - 1),
      puts_(geometry.slots) {
  for (Put& each : puts_) each.owner = this;
}

void RmaPuts::disown() {
  link_ = nullptr;
  sink_ = nullptr;
}

ucs_status_t RmaPuts::send(ucp_ep_h endpoint, Sequence sequence, uint64_t word, const Frame& frame,
                           ucp_mem_h memory) {
  endpoint_ = endpoint;
  if (next_commit_ == 0) next_commit_ = sequence;
  last_sent_ = sequence;
  Put& entry = puts_[sequence & mask_];
  entry.word = word;
  entry.landed = false;
  const ucs_status_t status =
      put(frame.data, frame.bytes, layout_.slot(sequence), memory, &RmaPuts::on_frame_put, &entry);
  if (status == UCS_INPROGRESS) return UCS_OK;
  if (status != UCS_OK) return status;
  entry.landed = true;
  return commit_landed();
}

ucs_status_t RmaPuts::put(const void* data, size_t bytes, size_t offset, ucp_mem_h memory,
                          ucp_send_nbx_callback_t done, void* context) {
  ucp_request_param_t param;
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = done;
  param.user_data = context;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  if (memory != nullptr) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memory;
  }
  const ucs_status_ptr_t request =
      ucp_put_nbx(endpoint_, data, bytes, target_.address + offset, target_.rkey.get(), &param);
  if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request);
  ++outstanding_;
  domain_.note_pending(1);
  return UCS_INPROGRESS;
}

// Commits all frames that have landed, up to the first that has not.
ucs_status_t RmaPuts::commit_landed() {
  while (next_commit_ <= last_sent_ && puts_[next_commit_ & mask_].landed) {
    const Sequence sequence = next_commit_++;
    Put& entry = puts_[sequence & mask_];
    entry.landed = false;
    ucs_status_t status = ucp_worker_fence(target_.worker);
    if (status != UCS_OK) return status;
    status = put(&entry.word, sizeof(entry.word), layout_.commit(sequence), nullptr,
                 &RmaPuts::on_word_put, this);
    if (UCS_STATUS_IS_ERR(status)) return status;
    if (link_ != nullptr) link_->note_commit();
    if (sink_ != nullptr) sink_->on_sent(sequence);
  }
  return UCS_OK;
}

void RmaPuts::on_frame_put(void* request, ucs_status_t status, void* put) {
  auto& entry = *static_cast<Put*>(put);
  RmaPuts& self = *entry.owner;
  --self.outstanding_;
  self.domain_.note_pending(-1);
  ucp_request_free(request);
  if (self.link_ == nullptr) return;
  if (status == UCS_OK) {
    entry.landed = true;
    status = self.commit_landed();
  }
  if (status != UCS_OK && self.link_ != nullptr) self.link_->fail("putting a frame", status);
}

void RmaPuts::on_word_put(void* request, ucs_status_t status, void* self) {
  auto& puts = *static_cast<RmaPuts*>(self);
  --puts.outstanding_;
  puts.domain_.note_pending(-1);
  ucp_request_free(request);
  if (status != UCS_OK && puts.link_ != nullptr) puts.link_->fail("putting a commit word", status);
}

}  // namespace asyncmesh::transport
