#include "transport/ucx/tag/tag_transport.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace asyncmesh::transport {
namespace {

constexpr uint32_t kIdleRoundsPerReap = 64;  // a power of two
constexpr uint32_t kReapsPerRound = 64;

Result<std::string> tag_tls(const UcxConfig& config) {
  if (config.tls == "auto") return std::string();
  if (config.tls == "tcp") return std::string("tcp");
  if (config.tls == "shm") return std::string("posix,sysv,cma");
  return Status(Code::kInvalidArgument, fmt::format("unknown transport choice \"{}\"", config.tls));
}

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
  TagOffer theirs;
  const TagOffer expected{kTagOfferMagic, epoch(), lane, geometry.slots, geometry.slot_bytes};
  if (offer.size() == sizeof(theirs)) std::memcpy(&theirs, offer.data(), sizeof(theirs));
  if (theirs != expected) {
    return Status(
        Code::kMismatch,
        fmt::format("lane {}: the reader's offer does not fit this lane and epoch", lane));
  }
  return std::unique_ptr<Outbound>(std::make_unique<TagOutbound>(*this, lane, geometry, sink));
}

std::string TagLink::describe() const { return fmt::format("tag over {}", transports()); }

TagTransport::TagTransport(std::unique_ptr<UcxWorker> worker, const UcxConfig& config)
    : config_(config), worker_(std::move(worker)) {}

TagTransport::~TagTransport() {
  while (reap() != 0) {
  }
}

Result<std::unique_ptr<Link>> TagTransport::open_link(Rank peer, Epoch epoch,
                                                      std::span<const std::byte> peer_address,
                                                      LinkSink& sink) {
  auto address = parse_ucx_address(peer_address, UcxEngine::kTag);
  if (!address.ok()) return address.status();
  const UcxLink::Identity identity{peer, epoch, address.value().node};
  auto link = std::make_unique<TagLink>(*worker_, identity, sink, config_.hook);
  ASYNCMESH_RETURN_IF_ERROR(link->connect(address.value().worker));
  return std::unique_ptr<Link>(std::move(link));
}

uint32_t TagTransport::progress() {
  uint32_t events = worker_->progress();
  if (worker_->take_deferred()) [[unlikely]] {
    for (UcxLink* link : worker_->links()) events += link->poll_lanes();
  }
  if (events == 0 && (++idle_rounds_ & (kIdleRoundsPerReap - 1)) == 0) events = reap();
  return events;
}

bool TagTransport::arm() { return worker_->arm() && reap() == 0; }

// Receiving into nothing truncates: UCX drops an eager message's bytes, and answers a rendezvous
// without fetching its payload.
uint32_t TagTransport::reap() {
  uint32_t count = 0;
  for (; count < kReapsPerRound; ++count) {
    ucp_tag_recv_info_t info;
    const ucp_tag_message_h message = ucp_tag_probe_nb(worker_->handle(), 0, 0, 1, &info);
    if (message == nullptr) break;
    ucp_request_param_t param;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    const ucs_status_ptr_t request =
        ucp_tag_msg_recv_nbx(worker_->handle(), nullptr, 0, message, &param);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  reaped_ += count;
  return count;
}

Result<std::unique_ptr<Transport>> make_ucx_tag(const UcxConfig& config, const Clock& clock) {
  auto tls = tag_tls(config);
  if (!tls.ok()) return tls.status();
  UcxContextRequest request;
  request.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  request.tls = tls.value();
  request.net_devices = config.net_devices;
  request.request_bytes = sizeof(TagRequest);
  auto worker = UcxWorker::create(request, UcxEngine::kTag, clock);
  if (!worker.ok()) return worker.status();
  return std::unique_ptr<Transport>(
      std::make_unique<TagTransport>(std::move(worker.value()), config));
}

}  // namespace asyncmesh::transport
