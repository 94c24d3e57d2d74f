#include "transport/ucx/rma/rma_transport.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace asyncmesh::transport {
namespace {

// UCX is progressed every so many calls: frames and most credit come without it, and a look at
// their words costs far less. Rarer still in a call that brought something, which its caller is
// about to handle.
constexpr uint32_t kIdleRoundsPerProgress = 8;
constexpr uint32_t kBusyRoundsPerProgress = 16;

}  // namespace

Result<std::unique_ptr<Link>> RmaTransport::open_link(Rank peer, Epoch epoch,
                                                      std::span<const std::byte> peer_address,
                                                      LinkSink& sink) {
  auto parsed = parse_ucx_address(peer_address, UcxEngine::kRma);
  if (!parsed.ok()) return parsed.status();
  const UcxAddress& theirs = parsed.value();
  const UcxAddress& ours = domain_->identity();
  const bool verbs = config_.tls != "shm" && theirs.has_verbs != 0 && ours.has_verbs != 0;
  if (theirs.host != ours.host && !verbs) {
    return Status(Code::kUnsupported,
                  fmt::format("no native remote memory access to rank {}: it is on another host, "
                              "and there is no InfiniBand or RoCE device on both",
                              peer));
  }
  const UcxLink::Identity identity{peer, epoch, theirs.node};
  auto link = std::make_unique<RmaLink>(*domain_, identity, sink, config_);
  ASYNCMESH_RETURN_IF_ERROR(link->open());
  return std::unique_ptr<Link>(std::move(link));
}

// A sink may open a lane or a link meanwhile, hence no iterators.
uint32_t RmaTransport::poll() {
  uint32_t events = 0;
  const auto& lanes = domain_->polled_lanes();
  for (size_t index = 0; index < lanes.size(); ++index) {
    auto& lane = static_cast<RmaInbound&>(*lanes[index]);
    if (lane.ready()) events += lane.poll();
  }
  const auto& credited = domain_->credited_lanes();
  for (size_t index = 0; index < credited.size(); ++index) {
    auto& lane = static_cast<RmaOutbound&>(*credited[index]);
    if (!lane.credit_ready()) continue;
    lane.poll_credit();
    ++events;
  }
  if (domain_->take_unsettled()) [[unlikely]] {
    for (UcxLink* link : domain_->links()) static_cast<RmaLink*>(link)->settle();
  }
  return events;
}

uint32_t RmaTransport::progress() {
  uint32_t events = poll();
  ucx_is_fresh_ = ++rounds_ >= (events == 0 ? kIdleRoundsPerProgress : kBusyRoundsPerProgress);
  if (!ucx_is_fresh_) return events;
  rounds_ = 0;
  events += domain_->housekeep();
  const auto& links = domain_->links();
  for (size_t index = 0; index < links.size(); ++index) events += links[index]->progress();
  // A look after UCX costs little against UCX, and halves the time in which nobody looks.
  return events != 0 ? events : poll();
}

bool RmaTransport::arm() {
  rounds_ = kBusyRoundsPerProgress;  // should this fail, the next progress includes UCX
  // Whether UCX was quiet at its last progress says nothing once others came after that.
  if (!ucx_is_fresh_) return false;
  bool quiet = domain_->arm_closing();
  for (UcxLink* link : domain_->links()) quiet = quiet && static_cast<RmaLink*>(link)->arm();
  return quiet;
}

Result<std::unique_ptr<Transport>> make_ucx_rma(const UcxConfig& config, const Clock& clock) {
  if (const Status known = check_tls(config.tls); !known.ok()) return known;
  const char* user_tls = std::getenv("UCX_TLS");
  UcxContextRequest request;
  request.tls = native_rma_tls(config.tls, user_tls == nullptr ? "" : user_tls, has_verbs_device());
  if (request.tls.empty()) {
    return Status(Code::kUnsupported,
                  fmt::format("rma needs native remote memory access (shared memory or rc): the "
                              "transport choice \"{}\"{}{} "
                              "leaves none, and rma never runs over TCP",
                              config.tls, user_tls == nullptr ? "" : " with UCX_TLS=",
                              user_tls == nullptr ? "" : user_tls));
  }
  request.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  request.net_devices = config.net_devices;
  auto domain = UcxDomain::create(request, UcxEngine::kRma, clock);
  if (!domain.ok()) return domain.status();
  return std::unique_ptr<Transport>(
      std::make_unique<RmaTransport>(std::move(domain.value()), config));
}

}  // namespace asyncmesh::transport
