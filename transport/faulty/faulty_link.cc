#include <algorithm>
#include <vector>

#include "transport/faulty/faulty_transport.h"

namespace asyncmesh::transport {

FaultyLink::FaultyLink(FaultyTransportImpl& transport, std::shared_ptr<FaultyLinkState> state,
                       LinkSink& sink)
    : transport_(transport), state_(std::move(state)), sink_(sink) {
  transport_.links_.push_back(this);
}

FaultyLink::~FaultyLink() { std::erase(transport_.links_, this); }

Status FaultyLink::open(std::span<const std::byte> peer_address) {
  auto inner = transport_.inner_->open_link(state_->peer, state_->epoch, peer_address, *this);
  if (!inner.ok()) return inner.status();
  inner_ = std::move(inner.value());
  return Status();
}

Result<std::unique_ptr<Inbound>> FaultyLink::open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                          Sequence next, InboundSink& sink) {
  auto inbound = std::make_unique<FaultyInbound>(transport_, state_, geometry, sink);
  ASYNCMESH_RETURN_IF_ERROR(inbound->open(*inner_, lane, next));
  return std::unique_ptr<Inbound>(std::move(inbound));
}

Result<std::unique_ptr<Outbound>> FaultyLink::open_outbound(LaneId lane,
                                                            const LaneGeometry& geometry,
                                                            std::span<const std::byte> offer,
                                                            OutboundSink& sink) {
  auto outbound = std::make_unique<FaultyOutbound>(transport_, state_, sink);
  ASYNCMESH_RETURN_IF_ERROR(outbound->open(*inner_, lane, geometry, offer));
  return std::unique_ptr<Outbound>(std::move(outbound));
}

bool FaultyLink::report_cut() {
  if (state_->cut != Cut::kPending) return false;
  state_->cut = Cut::kReported;
  sink_.on_link_down(state_->peer, state_->epoch,
                     Status(Code::kLinkError, "the link was cut (injected)"));
  return true;
}

void FaultyLink::on_link_down(Rank peer, Epoch epoch, const Status& why) {
  // At most once per link, and a silent cut stays silent.
  if (state_->severed()) return;
  state_->cut = Cut::kReported;
  sink_.on_link_down(peer, epoch, why);
}

FaultyInbound::FaultyInbound(FaultyTransportImpl& transport, std::shared_ptr<FaultyLinkState> link,
                             const LaneGeometry& geometry, InboundSink& sink)
    : transport_(transport), link_(std::move(link)), geometry_(geometry), sink_(sink) {
  transport_.inbounds_.push_back(this);
}

FaultyInbound::~FaultyInbound() { std::erase(transport_.inbounds_, this); }

Status FaultyInbound::open(Link& link, LaneId lane, Sequence next) {
  auto inner = link.open_inbound(lane, geometry_, next, *this);
  if (!inner.ok()) return inner.status();
  inner_ = std::move(inner.value());
  held_.reserve(size_t{2} * geometry_.slots);
  released_ = next - 1;
  return Status();
}

void FaultyInbound::release(Sequence sequence) {
  released_ = std::max(released_, sequence);
  inner_->release(sequence);
}

Code FaultyInbound::send_credit(const Credit& credit) {
  if (link_->severed()) return link_->cut == Cut::kReported ? Code::kLinkError : Code::kOk;
  return inner_->send_credit(credit);
}

void FaultyInbound::stop() {
  stopped_ = true;
  held_.clear();
  inner_->stop();
}

void FaultyInbound::on_frame(Sequence sequence, std::byte* slot, uint32_t bytes) {
  if (link_->severed()) return;
  FaultyTransportImpl& faulty = transport_;
  const FaultyConfig& config = faulty.config_;
  if (faulty.roll(config.cut, *link_)) return faulty.cut(*link_);
  if (faulty.roll(config.drop, *link_)) {
    ++faulty.counters_.dropped;
    return;
  }
  if (bytes > 0 && faulty.roll(config.corrupt, *link_)) {
    ++faulty.counters_.corrupted;
    const uint64_t bit = faulty.random_.below(uint64_t{bytes} * 8);
    slot[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  const bool twice = faulty.roll(config.duplicate, *link_);
  if (faulty.roll(config.delay, *link_) && hold(sequence, slot, bytes)) {
    ++faulty.counters_.delayed;
  } else {
    deliver(sequence, slot, bytes);
  }
  if (!twice) return;
  ++faulty.counters_.duplicated;
  const bool later = faulty.random_.below(2) == 0;
  if (!later || !hold(sequence, slot, bytes)) deliver(sequence, slot, bytes);
}

bool FaultyInbound::hold(Sequence sequence, std::byte* slot, uint32_t bytes) {
  if (held_.size() == held_.capacity()) return false;
  const double wait =
      transport_.random_.uniform() * static_cast<double>(transport_.config_.delay_ns);
  held_.push_back(
      {transport_.clock_.now() + static_cast<Nanoseconds>(wait), sequence, slot, bytes});
  return true;
}

void FaultyInbound::deliver(Sequence sequence, std::byte* slot, uint32_t bytes) {
  // A released slot belongs to the writer again; a duplicate that comes so late is lost.
  if (stopped_ || sequence <= released_) return;
  sink_.on_frame(sequence, slot, bytes);
}

uint32_t FaultyInbound::deliver_due(Nanoseconds now) {
  uint32_t events = 0;
  for (size_t i = 0; i < held_.size();) {
    if (held_[i].due > now) {
      ++i;
      continue;
    }
    const Held due = held_[i];
    held_[i] = held_.back();
    held_.pop_back();
    if (link_->severed()) continue;
    deliver(due.sequence, due.slot, due.bytes);
    ++events;
  }
  return events;
}

Nanoseconds FaultyInbound::next_due() const {
  Nanoseconds next = kNever;
  for (const Held& held : held_) next = std::min(next, held.due);
  return next;
}

Status FaultyOutbound::open(Link& link, LaneId lane, const LaneGeometry& geometry,
                            std::span<const std::byte> offer) {
  auto inner = link.open_outbound(lane, geometry, offer, *this);
  if (!inner.ok()) return inner.status();
  inner_ = std::move(inner.value());
  return Status();
}

Code FaultyOutbound::send(Sequence sequence, const Frame& frame) {
  if (link_->severed()) return link_->cut == Cut::kReported ? Code::kLinkError : Code::kOk;
  return inner_->send(sequence, frame);
}

void FaultyOutbound::on_sent(Sequence sequence) {
  if (!link_->severed()) sink_.on_sent(sequence);
}

void FaultyOutbound::on_credit(const Credit& credit) {
  if (link_->severed()) return;
  if (transport_.roll(transport_.config_.drop_credit, *link_)) {
    ++transport_.counters_.credits_dropped;
    return;
  }
  sink_.on_credit(credit);
}

}  // namespace asyncmesh::transport
