// The objects behind make_loopback. Private to this folder; the contract stands in
// transport/transport.h and loopback.h.
//
// The transport lists the live links and lanes so that `progress` can poll them; each enters and
// leaves the list in its constructor and destructor. A lane outlives its link: what both need of
// the link is in LinkState, which they share.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/loopback/endpoint.h"
#include "transport/loopback/lane_ring.h"
#include "transport/loopback/registry.h"
#include "transport/transport.h"

namespace asyncmesh::transport {

class LoopbackLink;
class LoopbackInbound;
class LoopbackOutbound;

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport();
  ~LoopbackTransport() override;

  std::string_view name() const override { return "loopback"; }
  Capabilities capabilities() const override;
  std::span<const std::byte> address() const override { return address_; }
  Result<std::unique_ptr<Link>> open_link(Rank peer, Epoch epoch,
                                          std::span<const std::byte> peer_address,
                                          LinkSink& sink) override;
  Result<uint32_t> register_staging(std::span<std::byte> memory) override;
  uint32_t progress() override;
  Nanoseconds next_deadline() const override { return kNever; }
  int event_fd() const override { return endpoint_->event_fd(); }
  bool arm() override;

 private:
  friend class LoopbackLink;
  friend class LoopbackInbound;
  friend class LoopbackOutbound;

  std::shared_ptr<Endpoint> endpoint_;
  Bytes address_;
  uint32_t next_staging_ = 0;
  std::vector<LoopbackLink*> links_;
  std::vector<LoopbackInbound*> inbounds_;
  std::vector<LoopbackOutbound*> outbounds_;
};

// One end of a link, shared by the link and its lanes.
struct LinkState {
  std::shared_ptr<Endpoint> peer;
  std::shared_ptr<Wire> wire;
  uint32_t side = 0;
  bool open = true;   // false: this end was closed
  bool down = false;  // reported

  bool live() const { return open && !down; }
  bool peer_gone() const {
    return wire->closed[1 - side].load(std::memory_order_seq_cst) || peer->closed();
  }
};

class LoopbackLink final : public Link {
 public:
  LoopbackLink(LoopbackTransport& transport, std::shared_ptr<LinkState> state, Rank peer,
               Epoch epoch, LinkSink& sink);
  ~LoopbackLink() override;

  Result<std::unique_ptr<Inbound>> open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                Sequence next, InboundSink& sink) override;
  Result<std::unique_ptr<Outbound>> open_outbound(LaneId lane, const LaneGeometry& geometry,
                                                  std::span<const std::byte> offer,
                                                  OutboundSink& sink) override;
  std::string describe() const override { return "loopback"; }

  bool gone() const { return state_->live() && state_->peer_gone(); }
  void report_down();

 private:
  LoopbackTransport& transport_;
  std::shared_ptr<LinkState> state_;
  Rank peer_;
  Epoch epoch_;
  LinkSink& sink_;
};

class LoopbackInbound final : public Inbound {
 public:
  LoopbackInbound(LoopbackTransport& transport, std::shared_ptr<LinkState> link,
                  std::shared_ptr<LaneRing> ring, Sequence next, InboundSink& sink);
  ~LoopbackInbound() override;

  std::span<const std::byte> offer() const override { return offer_; }
  void release(Sequence sequence) override;
  Code send_credit(const Credit& credit) override;
  void stop() override { stopped_ = true; }

  bool readable() const { return !stopped_ && link_->open && ring_->committed(next_); }
  uint32_t poll();

 private:
  LoopbackTransport& transport_;
  std::shared_ptr<LinkState> link_;
  std::shared_ptr<LaneRing> ring_;
  Sequence next_;
  InboundSink& sink_;
  Bytes offer_;
  bool stopped_ = false;
};

class LoopbackOutbound final : public Outbound {
 public:
  LoopbackOutbound(LoopbackTransport& transport, std::shared_ptr<LinkState> link,
                   std::shared_ptr<LaneRing> ring, OutboundSink& sink);
  ~LoopbackOutbound() override;

  Code send(Sequence sequence, const Frame& frame) override;

  bool readable() const { return link_->open && ring_->has_credit(); }
  uint32_t poll();

 private:
  LoopbackTransport& transport_;
  std::shared_ptr<LinkState> link_;
  std::shared_ptr<LaneRing> ring_;
  OutboundSink& sink_;
};

}  // namespace asyncmesh::transport
