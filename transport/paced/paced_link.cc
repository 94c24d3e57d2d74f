#include <fmt/format.h>

#include <vector>

#include "transport/paced/paced_transport.h"

namespace asyncmesh::transport {
namespace {

constexpr uint32_t kCreditBytes = 32;  // what a credit costs on the emulated wire

}  // namespace

PacedLink::PacedLink(PacedTransportImpl& transport, std::unique_ptr<Link> inner)
    : transport_(transport), inner_(std::move(inner)) {}

Result<std::unique_ptr<Inbound>> PacedLink::open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                         Sequence next, InboundSink& sink) {
  auto inner = inner_->open_inbound(lane, geometry, next, sink);
  if (!inner.ok()) return inner.status();
  return std::unique_ptr<Inbound>(
      std::make_unique<PacedInbound>(transport_, std::move(inner.value()), geometry.slots));
}

Result<std::unique_ptr<Outbound>> PacedLink::open_outbound(LaneId lane,
                                                           const LaneGeometry& geometry,
                                                           std::span<const std::byte> offer,
                                                           OutboundSink& sink) {
  auto inner = inner_->open_outbound(lane, geometry, offer, sink);
  if (!inner.ok()) return inner.status();
  return std::unique_ptr<Outbound>(
      std::make_unique<PacedOutbound>(transport_, std::move(inner.value()), geometry.slots));
}

std::string PacedLink::describe() const {
  return fmt::format("paced({}) {}", format_link(transport_.config()), inner_->describe());
}

PacedInbound::PacedInbound(PacedTransportImpl& transport, std::unique_ptr<Inbound> inner,
                           uint32_t slots)
    : transport_(transport), inner_(std::move(inner)), capacity_(slots) {
  transport_.queue_.reserve(capacity_);
  transport_.inbounds_.push_back(this);
}

PacedInbound::~PacedInbound() {
  clear_overdue();
  std::erase(transport_.inbounds_, this);
  transport_.queue_.remove(this);
  transport_.queue_.unreserve(capacity_);
}

Code PacedInbound::send_credit(const Credit& credit) {
  // Several may be on their way, as on a real link: with only one, a lane would move at most its
  // slots per latency.
  if (on_way_ == capacity_) return Code::kAgain;
  const Nanoseconds now = transport_.clock_.now();
  const Nanoseconds due = transport_.schedule(now, kCreditBytes);
  ++on_way_;
  if (transport_.queue_.empty() && due <= now) {
    depart(credit);
  } else {
    transport_.queue_.push({due, nullptr, this, 0, {}, credit});
  }
  return Code::kOk;
}

void PacedInbound::depart(const Credit& credit) {
  --on_way_;
  newest_ = credit;
  if (inner_->send_credit(credit) != Code::kAgain) {
    ++transport_.counters_.credits;
    transport_.counters_.bytes += kCreditBytes;
    clear_overdue();
  } else if (!overdue_) {
    overdue_ = true;
    ++transport_.overdue_;
  }
}

bool PacedInbound::retry() {
  if (!overdue_ || inner_->send_credit(newest_) == Code::kAgain) return false;
  ++transport_.counters_.credits;
  transport_.counters_.bytes += kCreditBytes;
  clear_overdue();
  return true;
}

void PacedInbound::clear_overdue() {
  if (!overdue_) return;
  overdue_ = false;
  --transport_.overdue_;
}

PacedOutbound::PacedOutbound(PacedTransportImpl& transport, std::unique_ptr<Outbound> inner,
                             uint32_t slots)
    : transport_(transport), inner_(std::move(inner)), slots_(slots) {
  transport_.queue_.reserve(slots_);
}

PacedOutbound::~PacedOutbound() {
  transport_.queue_.remove(this);
  transport_.queue_.unreserve(slots_);
}

Code PacedOutbound::send(Sequence sequence, const Frame& frame) {
  if (down_) return Code::kLinkError;
  const Nanoseconds now = transport_.clock_.now();
  const Nanoseconds due = transport_.schedule(now, frame.bytes);
  if (transport_.queue_.empty() && due <= now) return depart(sequence, frame);
  transport_.queue_.push({due, this, nullptr, sequence, frame, {}});
  return Code::kOk;
}

Code PacedOutbound::depart(Sequence sequence, const Frame& frame) {
  if (down_) return Code::kLinkError;
  ++transport_.counters_.frames;
  transport_.counters_.bytes += frame.bytes;
  const Code code = inner_->send(sequence, frame);
  down_ = code == Code::kLinkError;
  return code;
}

}  // namespace asyncmesh::transport
