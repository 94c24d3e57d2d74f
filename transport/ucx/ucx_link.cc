#include "transport/ucx/ucx_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "transport/ucx/ucx_lane.h"
#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {

UcxLink::UcxLink(UcxWorker& worker, const Identity& identity, LinkSink& sink, FrameHook hook)
    : worker_(worker), identity_(identity), sink_(sink), hook_(hook) {
  worker_.add_link(this);
}

UcxLink::~UcxLink() { close(); }

Status UcxLink::connect(const ucp_address_t* address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_FLAGS;
  params.address = address;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxLink::on_endpoint_error;
  params.err_handler.arg = this;
  params.flags = UCP_EP_PARAMS_FLAGS_NO_LOOPBACK;
  take_ucx_log();
  const ucs_status_t status = ucp_ep_create(worker_.handle(), &params, &endpoint_);
  if (status == UCS_OK) return {};
  endpoint_ = nullptr;
  const bool unreachable = status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED;
  return ucx_error(unreachable ? Code::kUnsupported : Code::kLinkError,
                   fmt::format("connecting to rank {}", identity_.peer), status);
}

void UcxLink::close() {
  const auto inbound = std::move(inbound_);
  const auto outbound = std::move(outbound_);
  inbound_.clear();
  outbound_.clear();
  for (UcxInbound* lane : inbound) lane->detach();
  for (UcxOutbound* lane : outbound) lane->detach();
  worker_.remove_link(this);
  if (endpoint_ == nullptr) return;
  worker_.close_endpoint(endpoint_);
  endpoint_ = nullptr;
}

[[gnu::noinline, gnu::cold]] void UcxLink::fail(std::string_view what, ucs_status_t status) {
  if (failed_) return;
  failed_ = true;
  failure_ = ucx_error(Code::kLinkError, what, status);
  worker_.note_failure();
}

void UcxLink::deliver_failure() {
  if (!failed_ || told_) return;
  told_ = true;
  sink_.on_link_down(identity_.peer, identity_.epoch, failure_);
}

void UcxLink::on_endpoint_error(void* self, ucp_ep_h, ucs_status_t status) {
  static_cast<UcxLink*>(self)->fail("UCX endpoint", status);
}

Code UcxLink::send_control(ControlSlot& slot, ControlMessage message) {
  if (failed_) return Code::kLinkError;
  message.node = worker_.node();
  message.epoch = identity_.epoch;
  ucs_status_t status = UCS_OK;
  const Code code = slot.send(endpoint_, message, &status);
  if (code == Code::kLinkError) fail("sending a control message", status);
  return code;
}

void UcxLink::on_control(const ControlMessage& message) {
  if (message.kind != ControlKind::kCredit) return;
  for (UcxOutbound* lane : outbound_) {
    if (lane->lane() == message.lane)
      return lane->credit({message.counts[0], message.counts[1], message.counts[2]});
  }
}

// A sink may open a lane meanwhile, hence no iterators.
uint32_t UcxLink::poll_lanes() {
  uint32_t frames = 0;
  for (size_t index = 0; index < inbound_.size(); ++index) frames += inbound_[index]->poll();
  return frames;
}

void UcxLink::remove(UcxInbound* lane) { std::erase(inbound_, lane); }

void UcxLink::remove(UcxOutbound* lane) { std::erase(outbound_, lane); }

Status UcxLink::check_open(LaneId lane, const LaneGeometry& geometry) const {
  if (failed_) return Status(Code::kLinkError, failure_.text());
  const bool valid = geometry.slots >= 2 && std::has_single_bit(geometry.slots) &&
                     geometry.slot_bytes > 0 && geometry.slot_bytes % 64 == 0;
  if (valid) return {};
  return {Code::kInvalidArgument,
          fmt::format("lane {}: {} slots of {} bytes", lane, geometry.slots, geometry.slot_bytes)};
}

// UCX 1.13 cannot be asked for an endpoint's transports other than by printing it: "lane[0]:
// 1:tcp/lo.0 md[1] ...".
std::string UcxLink::transports() const {
  if (endpoint_ == nullptr) return "nothing";
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
    name = name.substr(0, name.rfind('.'));
    if (const size_t memory = name.find("/memory"); memory != std::string::npos)
      name.resize(memory);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  std::free(text);
  return names.empty() ? "unknown" : fmt::format("{}", fmt::join(names, " + "));
}

}  // namespace asyncmesh::transport
