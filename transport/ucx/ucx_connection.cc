#include "transport/ucx/ucx_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "transport/ucx/ucx_link.h"
#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {

Result<std::unique_ptr<UcxConnection>> UcxConnection::create(ucp_context_h context, UcxLink* link) {
  std::unique_ptr<UcxConnection> connection(new UcxConnection(link));
  ASYNCMESH_RETURN_IF_ERROR(connection->open(context));
  return connection;
}

Status UcxConnection::open(ucp_context_h context) {
  take_ucx_log();
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  ucs_status_t status = ucp_worker_create(context, &params, &worker);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "creating a UCX worker", status);
  worker_.reset(worker);

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kControlAmId;
  handler.cb = &UcxConnection::on_message;
  handler.arg = this;
  status = ucp_worker_set_am_recv_handler(worker, &handler);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "setting UCX's message handler", status);
  status = ucp_worker_get_efd(worker, &event_fd_);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "getting UCX's event descriptor", status);

  ucp_address_t* packed = nullptr;
  size_t bytes = 0;
  status = ucp_worker_get_address(worker, &packed, &bytes);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "getting UCX's address", status);
  address_.resize(bytes);
  std::memcpy(address_.data(), packed, bytes);
  ucp_worker_release_address(worker, packed);
  return {};
}

UcxConnection::~UcxConnection() {
  for (const auto& object : kept_) object->drop_handles();
  worker_.reset();
}

ucs_status_t UcxConnection::connect(std::span<const std::byte> address) {
  // If the peer's own request came first and could not be served, since the peer is gone again, UCX
  // 1.13 would hand out the endpoint of that attempt, which has no lanes: the next send would end
  // the process. It clears such endpoints away in the progress that follows.
  for (int round = 0; round < kRoundsBeforeConnect && progress() != 0; ++round) {
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxConnection::on_error;
  params.err_handler.arg = this;
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = ucp_ep_create(worker_.get(), &params, &endpoint);
  if (status == UCS_OK) endpoint_ = endpoint;
  return status;
}

// UCX 1.13 cannot be asked for an endpoint's transports other than by printing it:
// "lane[0]:  1:tcp/lo.0 md[1] ...".
std::string UcxConnection::transports() const {
  if (endpoint_ == nullptr) return "UCX, not connected yet";
  char* text = nullptr;
  size_t bytes = 0;
  FILE* stream = open_memstream(&text, &bytes);
  if (stream == nullptr) return "unknown";
  ucp_ep_print_info(endpoint_, stream);
  fclose(stream);
  const std::string_view printed(text, bytes);
  std::vector<std::string> names;
  for (size_t at = printed.find("lane["); at != std::string_view::npos;
       at = printed.find("lane[", at + 1)) {
    const size_t start = printed.find(':', printed.find(':', at) + 1);
    const size_t end = printed.find_first_of(" \n", start);
    if (start == std::string_view::npos || end == std::string_view::npos) break;
    std::string name(printed.substr(start + 1, end - start - 1));
    name.resize(std::min(name.rfind('.'), name.size()));
    name.resize(std::min(name.find("/memory"), name.size()));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::free(text);
  return names.empty() ? "unknown" : fmt::format("{}", fmt::join(names, " + "));
}

// UCX arms the transports that no endpoint uses yet from within its progress, and only once that
// finds nothing. An error of UCX leaves the owner to its bounded sleep: better than a spin on a
// worker that cannot sleep.
bool UcxConnection::arm() { return quiet_ && ucp_worker_arm(worker_.get()) != UCS_ERR_BUSY; }

void UcxConnection::keep(std::shared_ptr<Lingering> object) {
  std::erase_if(kept_, [](const auto& each) { return each->outstanding() == 0; });
  if (object->outstanding() != 0) kept_.push_back(std::move(object));
}

void UcxConnection::begin_close() {
  link_ = nullptr;
  if (endpoint_ == nullptr || failed_ || transports().find("tcp") == std::string::npos) return;
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &UcxConnection::on_flushed;
  param.user_data = this;
  flushing_ = UCS_PTR_IS_PTR(ucp_ep_flush_nbx(endpoint_, &param));
}

void UcxConnection::progress_close() {
  if (endpoint_ != nullptr) {
    if (flushing_ && !failed_) progress();
    if (!flushing_ || failed_) close_endpoint();
  }
  if (close_request_ == nullptr) return;
  progress();
  if (ucp_request_check_status(close_request_) == UCS_INPROGRESS) return;
  ucp_request_free(close_request_);
  close_request_ = nullptr;
}

void UcxConnection::close_endpoint() {
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint_, &param);
  if (UCS_PTR_IS_PTR(request)) close_request_ = request;
  endpoint_ = nullptr;
}

void UcxConnection::on_error(void* self, ucp_ep_h, ucs_status_t status) {
  auto& connection = *static_cast<UcxConnection*>(self);
  connection.failed_ = true;
  if (connection.link_ != nullptr) connection.link_->fail("UCX endpoint", status);
}

void UcxConnection::on_flushed(void* request, ucs_status_t, void* self) {
  static_cast<UcxConnection*>(self)->flushing_ = false;
  ucp_request_free(request);
}

ucs_status_t UcxConnection::on_message(void* self, const void* header, size_t header_bytes,
                                       void* data, size_t bytes, const ucp_am_recv_param_t* param) {
  auto& connection = *static_cast<UcxConnection*>(self);
  ControlMessage message;
  const bool eager = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  if (connection.link_ == nullptr || header_bytes != sizeof(message) || !eager) return UCS_OK;
  std::memcpy(&message, header, sizeof(message));
  connection.link_->receive_control(message, {static_cast<const std::byte*>(data), bytes});
  return UCS_OK;
}

}  // namespace asyncmesh::transport
