#include "transport/ucx/rma/rma_transport.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace asyncmesh::transport {
namespace {

// While frames keep coming UCX is progressed this rarely: it only brings credits and notices. A
// power of two.
constexpr uint32_t kBusyRoundsPerProgress = 8;

}  // namespace

RmaTransport::RmaTransport(std::unique_ptr<UcxWorker> worker, const UcxConfig& config)
    : config_(config), worker_(std::move(worker)) {}

Result<std::unique_ptr<Link>> RmaTransport::open_link(Rank peer, Epoch epoch,
                                                      std::span<const std::byte> peer_address,
                                                      LinkSink& sink) {
  auto address = parse_ucx_address(peer_address, UcxEngine::kRma);
  if (!address.ok()) return address.status();
  const UcxLink::Identity identity{peer, epoch, address.value().node};
  auto link = std::make_unique<RmaLink>(*worker_, identity, sink, config_);
  ASYNCMESH_RETURN_IF_ERROR(link->connect(address.value().worker));
  return std::unique_ptr<Link>(std::move(link));
}

uint32_t RmaTransport::poll() {
  uint32_t frames = 0;
  const auto& links = worker_->links();
  for (size_t index = 0; index < links.size(); ++index) {
    auto& link = static_cast<RmaLink&>(*links[index]);
    frames += link.poll_lanes();
    link.settle();
  }
  return frames;
}

uint32_t RmaTransport::progress() {
  uint32_t events = poll();
  if (events == 0 || (++rounds_ & (kBusyRoundsPerProgress - 1)) == 0) events += worker_->progress();
  return events;
}

bool RmaTransport::arm() {
  bool quiet = poll() == 0;
  for (UcxLink* link : worker_->links())
    quiet = static_cast<RmaLink*>(link)->announce_sleep() && quiet;
  return quiet && worker_->arm();
}

Result<std::unique_ptr<Transport>> make_ucx_rma(const UcxConfig& config, const Clock& clock) {
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
  auto worker = UcxWorker::create(request, UcxEngine::kRma, clock);
  if (!worker.ok()) return worker.status();
  return std::unique_ptr<Transport>(
      std::make_unique<RmaTransport>(std::move(worker.value()), config));
}

}  // namespace asyncmesh::transport
