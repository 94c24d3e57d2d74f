#include "transport/faulty/faulty_transport.h"

#include <algorithm>

namespace asyncmesh::transport {

std::unique_ptr<FaultyTransport> make_faulty(std::unique_ptr<Transport> inner,
                                             const FaultyConfig& config, const Clock& clock) {
  return std::make_unique<FaultyTransportImpl>(std::move(inner), config, clock);
}

FaultyTransportImpl::FaultyTransportImpl(std::unique_ptr<Transport> inner,
                                         const FaultyConfig& config, const Clock& clock)
    : ForwardingTransport("faulty", std::move(inner)),
      config_(config),
      clock_(clock),
      random_(config.seed) {}

Result<std::unique_ptr<Link>> FaultyTransportImpl::open_link(
    Rank peer, Epoch epoch, std::span<const std::byte> peer_address, LinkSink& sink) {
  auto state = std::make_shared<FaultyLinkState>();
  state->peer = peer;
  state->epoch = epoch;
  auto link = std::make_unique<FaultyLink>(*this, std::move(state), sink);
  ASYNCMESH_RETURN_IF_ERROR(link->open(peer_address));
  return std::unique_ptr<Link>(std::move(link));
}

uint32_t FaultyTransportImpl::progress() {
  uint32_t events = inner_->progress();
  const Nanoseconds now = clock_.now();
  for (size_t i = 0; i < inbounds_.size(); ++i) events += inbounds_[i]->deliver_due(now);
  for (size_t i = 0; i < links_.size(); ++i) events += links_[i]->report_cut() ? 1 : 0;
  return events;
}

Nanoseconds FaultyTransportImpl::next_deadline() const {
  Nanoseconds next = inner_->next_deadline();
  for (const FaultyInbound* lane : inbounds_) next = std::min(next, lane->next_due());
  return next;
}

bool FaultyTransportImpl::arm() {
  const Nanoseconds now = clock_.now();
  const bool due = std::ranges::any_of(
      inbounds_, [now](const FaultyInbound* lane) { return lane->next_due() <= now; });
  return !due && inner_->arm();
}

bool FaultyTransportImpl::roll(double probability, const FaultyLinkState& link) {
  if (probability <= 0 || link.epoch > config_.last_epoch ||
      counters_.total() >= config_.max_faults)
    return false;
  return random_.uniform() < probability;
}

void FaultyTransportImpl::cut(FaultyLinkState& link) {
  const bool silent = random_.below(2) == 0;
  link.cut = silent ? Cut::kSilent : Cut::kPending;
  ++(silent ? counters_.cuts_silent : counters_.cuts_reported);
}

}  // namespace asyncmesh::transport
