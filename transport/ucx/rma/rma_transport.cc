#include "transport/ucx/rma/rma_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace asyncmesh::transport {
namespace {

// UCX brings messages that are no frames: frames and most credit come by stores, and a look at
// their words costs far less. So UCX is progressed about this often by an owner that spins, and in
// every call by one that looks in rarely.
constexpr Nanoseconds kUcxInterval = 1'000;
constexpr uint32_t kMostRoundsPerUcx = 64;

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
  const auto& credited = domain_->credited_lanes();
  for (size_t index = 0; index < credited.size(); ++index) {
    auto& lane = static_cast<RmaOutbound&>(*credited[index]);
    if (!lane.credit_ready()) continue;
    lane.poll_credit();
    ++events;
  }
  // Frames last: whoever spins for one is next to see it.
  const auto& lanes = domain_->polled_lanes();
  for (size_t index = 0; index < lanes.size(); ++index) {
    auto& lane = static_cast<RmaInbound&>(*lanes[index]);
    if (lane.ready()) events += lane.poll();
  }
  if (domain_->take_unsettled()) [[unlikely]] {
    for (UcxLink* link : domain_->links()) static_cast<RmaLink*>(link)->settle();
  }
  return events;
}

uint32_t RmaTransport::progress() {
  uint32_t events = poll();
  ucx_is_fresh_ = ++rounds_ >= rounds_per_ucx_ || domain_->has_pending();
  if (!ucx_is_fresh_) return events;
  events += progress_ucx();
  // A look after UCX costs little against UCX, and halves the time in which nobody looks.
  return events != 0 ? events : poll();
}

uint32_t RmaTransport::progress_ucx() {
  const Nanoseconds now = domain_->clock().now();
  const Nanoseconds elapsed = now - ucx_at_;
  if (elapsed < kUcxInterval) {
    rounds_per_ucx_ = std::min(2 * rounds_per_ucx_, kMostRoundsPerUcx);
  } else if (elapsed > 2 * kUcxInterval) {
    rounds_per_ucx_ = elapsed < rounds_ * kUcxInterval ? (rounds_per_ucx_ + 1) / 2 : 1;
  }
  ucx_at_ = now;
  rounds_ = 0;
  uint32_t events = domain_->housekeep();
  const auto& links = domain_->links();
  for (size_t index = 0; index < links.size(); ++index) events += links[index]->progress();
  return events;
}

bool RmaTransport::arm() {
  rounds_ = kMostRoundsPerUcx;  // should this fail, the next progress includes UCX
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
