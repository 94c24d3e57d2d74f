#include <fmt/format.h>

#include <utility>

#include "transport/ucx/tag/tag_transport.h"

namespace asyncmesh::transport {
namespace {

constexpr uint32_t kIdleRoundsPerReap = 64;  // a power of two
constexpr uint32_t kReapsPerRound = 64;

}  // namespace

Result<std::unique_ptr<Inbound>> TagLink::open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                       Sequence next, InboundSink& sink) {
  ASYNCMESH_RETURN_IF_ERROR(check_open(lane, geometry));
  auto inbound = std::make_unique<TagInbound>(*this, lane, geometry, sink);
  ASYNCMESH_RETURN_IF_ERROR(inbound->open(next));
  return std::unique_ptr<Inbound>(std::move(inbound));
}

Result<std::unique_ptr<Outbound>> TagLink::open_outbound(LaneId lane, const LaneGeometry& geometry,
                                                         std::span<const std::byte> offer,
                                                         OutboundSink& sink) {
  ASYNCMESH_RETURN_IF_ERROR(check_open(lane, geometry));
  auto parsed = parse_ucx_offer(offer, expected_offer(UcxEngine::kTag, epoch(), lane, geometry));
  if (!parsed.ok()) return parsed.status();
  ASYNCMESH_RETURN_IF_ERROR(connect(parsed.value().worker));
  return std::unique_ptr<Outbound>(std::make_unique<TagOutbound>(*this, lane, geometry, sink));
}

std::string TagLink::describe() const {
  return fmt::format("tag over {}", connection().transports());
}

uint32_t TagLink::progress_frames() {
  uint32_t events = progress();
  if (deferred_) [[unlikely]] {
    deferred_ = false;
    events += poll_lanes();
  }
  if (events == 0 && (++idle_rounds_ & (kIdleRoundsPerReap - 1)) == 0) events = reap();
  return events;
}

bool TagLink::arm() { return !deferred_ && connection().arm() && reap() == 0; }

// Receiving into nothing truncates: UCX drops an eager message's bytes, and answers a rendezvous
// without fetching its payload.
uint32_t TagLink::reap() {
  uint32_t count = 0;
  for (; count < kReapsPerRound; ++count) {
    ucp_tag_recv_info_t info;
    const ucp_tag_message_h message = ucp_tag_probe_nb(connection().worker(), 0, 0, 1, &info);
    if (message == nullptr) break;
    ucp_request_param_t param;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    const ucs_status_ptr_t request =
        ucp_tag_msg_recv_nbx(connection().worker(), nullptr, 0, message, &param);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  return count;
}

}  // namespace asyncmesh::transport
