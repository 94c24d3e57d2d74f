// The objects behind make_faulty. Private to this folder; the contract stands in
// transport/transport.h and faulty.h.
//
// Faults are injected on the receiving path: FaultyInbound and FaultyOutbound stand between the
// inner transport and the sinks. A lane outlives its link: what both need of the link is in
// FaultyLinkState, which they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "transport/faulty/faulty.h"
#include "transport/forwarding_transport.h"

namespace asyncmesh::transport {

class FaultyLink;
class FaultyInbound;

// What a link's cut has come to.
enum class Cut { kNone, kSilent, kPending, kReported };

struct FaultyLinkState {
  Rank peer = 0;
  Epoch epoch = 0;
  Cut cut = Cut::kNone;

  bool severed() const { return cut != Cut::kNone; }
};

class FaultyTransportImpl final : public ForwardingTransport<FaultyTransport> {
 public:
  FaultyTransportImpl(std::unique_ptr<Transport> inner, const FaultyConfig& config,
                      const Clock& clock);

  Result<std::unique_ptr<Link>> open_link(Rank peer, Epoch epoch,
                                          std::span<const std::byte> peer_address,
                                          LinkSink& sink) override;
  uint32_t progress() override;
  Nanoseconds next_deadline() const override;
  bool arm() override;
  const FaultyCounters& counters() const override { return counters_; }

 private:
  friend class FaultyLink;
  friend class FaultyInbound;
  friend class FaultyOutbound;

  bool roll(double probability, const FaultyLinkState& link);
  void cut(FaultyLinkState& link);

  FaultyConfig config_;
  const Clock& clock_;
  CounterRandom random_;
  std::vector<FaultyLink*> links_;
  std::vector<FaultyInbound*> inbounds_;
  FaultyCounters counters_;
};

class FaultyLink final : public Link, private LinkSink {
 public:
  FaultyLink(FaultyTransportImpl& transport, std::shared_ptr<FaultyLinkState> state,
             LinkSink& sink);
  ~FaultyLink() override;

  Status open(std::span<const std::byte> peer_address);  // first call
  Result<std::unique_ptr<Inbound>> open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                Sequence next, InboundSink& sink) override;
  Result<std::unique_ptr<Outbound>> open_outbound(LaneId lane, const LaneGeometry& geometry,
                                                  std::span<const std::byte> offer,
                                                  OutboundSink& sink) override;
  std::string describe() const override { return "faulty " + inner_->describe(); }

  bool report_cut();  // true: on_link_down was called

 private:
  void on_link_down(Rank peer, Epoch epoch, const Status& why) override;

  FaultyTransportImpl& transport_;
  std::shared_ptr<FaultyLinkState> state_;
  LinkSink& sink_;
  std::unique_ptr<Link> inner_;
};

class FaultyInbound final : public Inbound, private InboundSink {
 public:
  FaultyInbound(FaultyTransportImpl& transport, std::shared_ptr<FaultyLinkState> link,
                const LaneGeometry& geometry, InboundSink& sink);
  ~FaultyInbound() override;

  Status open(Link& link, LaneId lane, Sequence next);  // first call
  std::span<const std::byte> offer() const override { return inner_->offer(); }
  void release(Sequence sequence) override;
  Code send_credit(const Credit& credit) override;
  void stop() override;

  uint32_t deliver_due(Nanoseconds now);
  Nanoseconds next_due() const;

 private:
  struct Held {
    Nanoseconds due = 0;
    Sequence sequence = 0;
    std::byte* slot = nullptr;
    uint32_t bytes = 0;
  };
  void on_frame(Sequence sequence, std::byte* slot, uint32_t bytes) override;
  bool hold(Sequence sequence, std::byte* slot, uint32_t bytes);  // false: no room
  void deliver(Sequence sequence, std::byte* slot, uint32_t bytes);

  FaultyTransportImpl& transport_;
  std::shared_ptr<FaultyLinkState> link_;
  LaneGeometry geometry_;
  InboundSink& sink_;
  std::vector<Held> held_;  // capacity 2 x slots: every frame once, and once more as a duplicate
  Sequence released_ = 0;
  bool stopped_ = false;
  std::unique_ptr<Inbound> inner_;
};

class FaultyOutbound final : public Outbound, private OutboundSink {
 public:
  FaultyOutbound(FaultyTransportImpl& transport, std::shared_ptr<FaultyLinkState> link,
                 OutboundSink& sink)
      : transport_(transport), link_(std::move(link)), sink_(sink) {}

  Status open(Link& link, LaneId lane, const LaneGeometry& geometry,
              std::span<const std::byte> offer);  // first call
  Code send(Sequence sequence, const Frame& frame) override;

 private:
  void on_sent(Sequence sequence) override;
  void on_credit(const Credit& credit) override;

  FaultyTransportImpl& transport_;
  std::shared_ptr<FaultyLinkState> link_;
  OutboundSink& sink_;
  std::unique_ptr<Outbound> inner_;
};

}  // namespace asyncmesh::transport
