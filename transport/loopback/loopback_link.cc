#include <bit>
#include <cstring>
#include <vector>

#include "transport/loopback/loopback_transport.h"

namespace asyncmesh::transport {
namespace {

struct Offer {
  uint64_t magic = 0x72656666706F6F6C;
  uint64_t ring = 0;
};

bool valid(const LaneGeometry& geometry) {
  return geometry.slots >= 2 && std::has_single_bit(geometry.slots) && geometry.slot_bytes > 0 &&
         geometry.stride() % 64 == 0;
}

}  // namespace

LoopbackLink::LoopbackLink(LoopbackTransport& transport, std::shared_ptr<LinkState> state,
                           Rank peer, Epoch epoch, LinkSink& sink)
    : transport_(transport), state_(std::move(state)), peer_(peer), epoch_(epoch), sink_(sink) {
  transport_.links_.push_back(this);
}

LoopbackLink::~LoopbackLink() {
  std::erase(transport_.links_, this);
  state_->open = false;
  // Pairs with the load in LinkState::peer_gone: frames committed before are visible to whoever
  // sees the flag. Sequentially consistent for the wake-up that follows (endpoint.h).
  state_->wire->closed[state_->side].store(true, std::memory_order_seq_cst);
  state_->peer->notify();
}

void LoopbackLink::report_down() {
  state_->down = true;
  sink_.on_link_down(peer_, epoch_,
                     Status(Code::kLinkError, "the peer closed its end of the link"));
}

Result<std::unique_ptr<Inbound>> LoopbackLink::open_inbound(LaneId lane,
                                                            const LaneGeometry& geometry,
                                                            Sequence next, InboundSink& sink) {
  if (!valid(geometry) || next == 0 || next > kSequenceMask)
    return Status(Code::kInvalidArgument, "lane geometry or first sequence out of range");
  auto ring = std::make_shared<LaneRing>(epoch_, lane, geometry);
  return std::unique_ptr<Inbound>(
      std::make_unique<LoopbackInbound>(transport_, state_, std::move(ring), next, sink));
}

Result<std::unique_ptr<Outbound>> LoopbackLink::open_outbound(LaneId lane,
                                                              const LaneGeometry& geometry,
                                                              std::span<const std::byte> offer,
                                                              OutboundSink& sink) {
  Offer bytes;
  if (offer.size() != sizeof(bytes))
    return Status(Code::kInvalidArgument, "not an offer of a loopback lane");
  std::memcpy(&bytes, offer.data(), sizeof(bytes));
  if (bytes.magic != Offer{}.magic)
    return Status(Code::kInvalidArgument, "not an offer of a loopback lane");
  auto ring = Registry::instance().take(bytes.ring);
  if (ring == nullptr)
    return Status(Code::kLinkError, "the offered lane is gone, or has a writer already");
  if (ring->epoch() != epoch_)
    return Status(Code::kLinkError, "the offer belongs to another link epoch");
  if (ring->lane() != lane || ring->geometry().slots != geometry.slots ||
      ring->geometry().slot_bytes != geometry.slot_bytes)
    return Status(Code::kMismatch, "the offered lane has another number or geometry");
  return std::unique_ptr<Outbound>(
      std::make_unique<LoopbackOutbound>(transport_, state_, std::move(ring), sink));
}

LoopbackInbound::LoopbackInbound(LoopbackTransport& transport, std::shared_ptr<LinkState> link,
                                 std::shared_ptr<LaneRing> ring, Sequence next, InboundSink& sink)
    : transport_(transport),
      link_(std::move(link)),
      ring_(std::move(ring)),
      next_(next),
      sink_(sink),
      offer_(sizeof(Offer)) {
  Offer offer;
  offer.ring = Registry::instance().offer(ring_);
  std::memcpy(offer_.data(), &offer, sizeof(offer));
  transport_.inbounds_.push_back(this);
}

LoopbackInbound::~LoopbackInbound() { std::erase(transport_.inbounds_, this); }

void LoopbackInbound::release(Sequence) {
  // Nothing to prepare: the writer may overwrite the slot once the credit that follows has told it
  // so.
}

Code LoopbackInbound::send_credit(const Credit& credit) {
  if (!link_->live()) return Code::kLinkError;
  ring_->put_credit(credit);
  link_->peer->notify();
  return Code::kOk;
}

uint32_t LoopbackInbound::poll() {
  uint32_t events = 0;
  // At most one lap per call, so that no lane starves the others.
  while (events < ring_->geometry().slots && readable()) {
    const Sequence sequence = next_++;
    ++events;
    sink_.on_frame(sequence, ring_->slot(sequence), ring_->bytes(sequence));
  }
  return events;
}

LoopbackOutbound::LoopbackOutbound(LoopbackTransport& transport, std::shared_ptr<LinkState> link,
                                   std::shared_ptr<LaneRing> ring, OutboundSink& sink)
    : transport_(transport), link_(std::move(link)), ring_(std::move(ring)), sink_(sink) {
  transport_.outbounds_.push_back(this);
}

LoopbackOutbound::~LoopbackOutbound() { std::erase(transport_.outbounds_, this); }

Code LoopbackOutbound::send(Sequence sequence, const Frame& frame) {
  if (!link_->live()) return Code::kLinkError;
  if (frame.bytes > ring_->geometry().slot_bytes) return Code::kTooLarge;
  ring_->write(sequence, frame.data, frame.bytes);
  link_->peer->notify();
  sink_.on_sent(sequence);
  return Code::kOk;
}

uint32_t LoopbackOutbound::poll() {
  Credit credit;
  if (!link_->open || !ring_->take_credit(&credit)) return 0;
  sink_.on_credit(credit);
  return 1;
}

}  // namespace asyncmesh::transport
