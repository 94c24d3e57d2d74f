#include "transport/ucx/ucx_control.h"

namespace asyncmesh::transport {

Code ControlSlot::send(ucp_ep_h endpoint, const ControlMessage& message,
                       std::span<const std::byte> payload, ucs_status_t* status_out) {
  if (outstanding_ != 0) return Code::kAgain;
  message_ = message;
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &ControlSlot::on_sent;
  param.user_data = this;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request = ucp_am_send_nbx(
      endpoint, kControlAmId, &message_, sizeof(message_), payload.data(), payload.size(), &param);
  if (request == nullptr) return Code::kOk;
  if (UCS_PTR_IS_ERR(request)) {
    *status_out = UCS_PTR_STATUS(request);
    return Code::kLinkError;
  }
  outstanding_ = 1;
  return Code::kOk;
}

// A failed message needs no report of its own: the endpoint's error callback tells of the link.
void ControlSlot::on_sent(void* request, ucs_status_t, void* self) {
  static_cast<ControlSlot*>(self)->outstanding_ = 0;
  ucp_request_free(request);
}

}  // namespace asyncmesh::transport
