#include "transport/ucx/tag/tag_transport.h"

#include <fmt/format.h>

#include <utility>

namespace asyncmesh::transport {
namespace {

// Not cma: UCX reads a peer's memory only where it could forbid that to a lost one, which cma
// cannot. So it would never be chosen, and rightly so: a late read is a torn frame.
std::string tag_tls(const UcxConfig& config) {
  if (config.tls == "auto") return {};
  return config.tls == "tcp" ? "tcp" : "posix,sysv";
}

}  // namespace

Result<std::unique_ptr<Link>> TagTransport::open_link(Rank peer, Epoch epoch,
                                                      std::span<const std::byte> peer_address,
                                                      LinkSink& sink) {
  auto address = parse_ucx_address(peer_address, UcxEngine::kTag);
  if (!address.ok()) return address.status();
  if (config_.tls == "shm" && address.value().host != domain_->identity().host) {
    return Status(Code::kUnsupported, fmt::format("rank {} shares no memory with this host", peer));
  }
  const UcxLink::Identity identity{peer, epoch, address.value().node};
  auto link = std::make_unique<TagLink>(*domain_, identity, sink, config_.hook);
  ASYNCMESH_RETURN_IF_ERROR(link->open());
  return std::unique_ptr<Link>(std::move(link));
}

// A sink may open a link meanwhile, hence no iterators.
uint32_t TagTransport::progress() {
  uint32_t events = domain_->housekeep();
  const auto& links = domain_->links();
  for (size_t index = 0; index < links.size(); ++index) {
    events += static_cast<TagLink*>(links[index])->progress_frames();
  }
  return events;
}

bool TagTransport::arm() {
  bool quiet = domain_->arm_closing();
  for (UcxLink* link : domain_->links()) quiet = quiet && static_cast<TagLink*>(link)->arm();
  return quiet;
}

Result<std::unique_ptr<Transport>> make_ucx_tag(const UcxConfig& config, const Clock& clock) {
  if (const Status known = check_tls(config.tls); !known.ok()) return known;
  UcxContextRequest request;
  request.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  request.tls = tag_tls(config);
  request.net_devices = config.net_devices;
  request.request_bytes = sizeof(TagRequest);
  auto domain = UcxDomain::create(request, UcxEngine::kTag, clock);
  if (!domain.ok()) return domain.status();
  return std::unique_ptr<Transport>(
      std::make_unique<TagTransport>(std::move(domain.value()), config));
}

}  // namespace asyncmesh::transport
