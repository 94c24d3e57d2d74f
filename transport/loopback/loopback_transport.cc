#include "transport/loopback/loopback_transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "transport/loopback/loopback.h"

namespace asyncmesh::transport {
namespace {

struct Address {
  uint64_t magic = 0x6B6361626C6F6F70;
  uint64_t process = 0;
  uint64_t nonce = 0;
  uint64_t endpoint = 0;
};

uint64_t own_process() { return static_cast<uint64_t>(::getpid()); }

}  // namespace

std::unique_ptr<Transport> make_loopback() { return std::make_unique<LoopbackTransport>(); }

LoopbackTransport::LoopbackTransport()
    : endpoint_(Registry::instance().add_endpoint()), address_(sizeof(Address)) {
  Address address;
  address.process = own_process();
  address.nonce = Registry::instance().nonce();
  address.endpoint = endpoint_->id();
  std::memcpy(address_.data(), &address, sizeof(address));
}

LoopbackTransport::~LoopbackTransport() { endpoint_->close(); }

Capabilities LoopbackTransport::capabilities() const {
  Capabilities capabilities;
  capabilities.remote_memory = true;
  capabilities.has_event_fd = endpoint_->event_fd() >= 0;
  return capabilities;
}

Result<std::unique_ptr<Link>> LoopbackTransport::open_link(Rank peer, Epoch epoch,
                                                           std::span<const std::byte> peer_address,
                                                           LinkSink& sink) {
  Address address;
  if (peer_address.size() != sizeof(address))
    return Status(Code::kInvalidArgument, "not a loopback address");
  std::memcpy(&address, peer_address.data(), sizeof(address));
  if (address.magic != Address{}.magic)
    return Status(Code::kInvalidArgument, "not a loopback address");
  if (address.process != own_process() || address.nonce != Registry::instance().nonce())
    return Status(Code::kUnsupported, "loopback reaches contexts of the same process only");

  auto state = std::make_shared<LinkState>();
  state->peer = Registry::instance().find_endpoint(address.endpoint);
  if (state->peer == nullptr || state->peer->closed())
    return Status(Code::kLinkError, fmt::format("the context of rank {} is gone", peer));
  auto joined = Registry::instance().join(endpoint_->id(), address.endpoint, epoch);
  if (!joined.ok()) return joined.status();
  state->wire = std::move(joined.value().wire);
  state->side = joined.value().side;
  return std::unique_ptr<Link>(
      std::make_unique<LoopbackLink>(*this, std::move(state), peer, epoch, sink));
}

Result<uint32_t> LoopbackTransport::register_staging(std::span<std::byte> memory) {
  if (memory.empty()) return Status(Code::kInvalidArgument, "empty staging memory");
  return next_staging_++;
}

uint32_t LoopbackTransport::progress() {
  endpoint_->disarm();
  uint32_t events = 0;
  // A peer that is gone has committed its last frame before: look at that first, so that nothing
  // committed is left behind.
  const bool any_gone =
      std::ranges::any_of(links_, [](const LoopbackLink* link) { return link->gone(); });
  for (size_t i = 0; i < inbounds_.size(); ++i) events += inbounds_[i]->poll();
  for (size_t i = 0; i < outbounds_.size(); ++i) events += outbounds_[i]->poll();
  if (!any_gone) return events;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (!links_[i]->gone()) continue;
    links_[i]->report_down();
    ++events;
  }
  return events;
}

bool LoopbackTransport::arm() {
  endpoint_->arm();
  const bool busy =
      std::ranges::any_of(inbounds_,
                          [](const LoopbackInbound* lane) { return lane->readable(); }) ||
      std::ranges::any_of(outbounds_,
                          [](const LoopbackOutbound* lane) { return lane->readable(); }) ||
      std::ranges::any_of(links_, [](const LoopbackLink* link) { return link->gone(); });
  return !busy && endpoint_->event_fd() >= 0;
}

}  // namespace asyncmesh::transport
