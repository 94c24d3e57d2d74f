#include "transport/paced/paced_transport.h"

#include <algorithm>

namespace asyncmesh::transport {

std::unique_ptr<PacedTransport> make_paced(std::unique_ptr<Transport> inner,
                                           const PacedConfig& config, const Clock& clock) {
  return std::make_unique<PacedTransportImpl>(std::move(inner), config, clock);
}

PacedTransportImpl::PacedTransportImpl(std::unique_ptr<Transport> inner, const PacedConfig& config,
                                       const Clock& clock)
    : ForwardingTransport("paced", std::move(inner)),
      config_(config),
      clock_(clock),
      bucket_(config.bytes_per_second, config.burst_bytes) {}

Result<std::unique_ptr<Link>> PacedTransportImpl::open_link(Rank peer, Epoch epoch,
                                                            std::span<const std::byte> peer_address,
                                                            LinkSink& sink) {
  auto inner = inner_->open_link(peer, epoch, peer_address, sink);
  if (!inner.ok()) return inner.status();
  return std::unique_ptr<Link>(std::make_unique<PacedLink>(*this, std::move(inner.value())));
}

uint32_t PacedTransportImpl::progress() {
  uint32_t events = depart(clock_.now());
  events += inner_->progress();
  // Callbacks may have posted what is due at once.
  if (!queue_.empty()) events += depart(clock_.now());
  return events;
}

uint32_t PacedTransportImpl::depart(Nanoseconds now) {
  uint32_t events = 0;
  if (overdue_ > 0) {
    for (PacedInbound* lane : inbounds_) events += lane->retry() ? 1 : 0;
  }
  while (!queue_.empty() && queue_.front().due <= now) {
    const Departure departure = queue_.pop();
    ++events;
    if (departure.inbound != nullptr) {
      departure.inbound->depart(departure.credit);
    } else {
      departure.outbound->depart(departure.sequence, departure.frame);
    }
  }
  return events;
}

Nanoseconds PacedTransportImpl::next_deadline() const {
  const Nanoseconds inner = inner_->next_deadline();
  return queue_.empty() ? inner : std::min(inner, queue_.front().due);
}

bool PacedTransportImpl::arm() {
  if (overdue_ > 0 || (!queue_.empty() && queue_.front().due <= clock_.now())) return false;
  return inner_->arm();
}

}  // namespace asyncmesh::transport
