// The objects behind make_paced. Private to this folder; the contract stands in
// transport/transport.h and paced.h.
//
// Receiving is not touched, so sinks go straight to the inner transport; only `send` and
// `send_credit` are wrapped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/forwarding_transport.h"
#include "transport/paced/egress.h"
#include "transport/paced/paced.h"

namespace asyncmesh::transport {

class PacedTransportImpl final : public ForwardingTransport<PacedTransport> {
 public:
  PacedTransportImpl(std::unique_ptr<Transport> inner, const PacedConfig& config,
                     const Clock& clock);

  Result<std::unique_ptr<Link>> open_link(Rank peer, Epoch epoch,
                                          std::span<const std::byte> peer_address,
                                          LinkSink& sink) override;
  uint32_t progress() override;
  Nanoseconds next_deadline() const override;
  bool arm() override;
  const PacedCounters& counters() const override { return counters_; }

  const PacedConfig& config() const { return config_; }

 private:
  friend class PacedInbound;
  friend class PacedOutbound;

  Nanoseconds schedule(Nanoseconds now, uint32_t bytes) {
    return bucket_.take(now, bytes) + config_.latency;
  }
  uint32_t depart(Nanoseconds now);

  PacedConfig config_;
  const Clock& clock_;
  TokenBucket bucket_;
  DepartureQueue queue_;
  std::vector<PacedInbound*> inbounds_;
  uint32_t overdue_ = 0;  // inbounds whose credit the inner transport could not take yet
  PacedCounters counters_;
};

class PacedLink final : public Link {
 public:
  PacedLink(PacedTransportImpl& transport, std::unique_ptr<Link> inner);

  Result<std::unique_ptr<Inbound>> open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                Sequence next, InboundSink& sink) override;
  Result<std::unique_ptr<Outbound>> open_outbound(LaneId lane, const LaneGeometry& geometry,
                                                  std::span<const std::byte> offer,
                                                  OutboundSink& sink) override;
  std::string describe() const override;

 private:
  PacedTransportImpl& transport_;
  std::unique_ptr<Link> inner_;
};

class PacedInbound final : public Inbound {
 public:
  PacedInbound(PacedTransportImpl& transport, std::unique_ptr<Inbound> inner, uint32_t slots);
  ~PacedInbound() override;

  std::span<const std::byte> offer() const override { return inner_->offer(); }
  void release(Sequence sequence) override { inner_->release(sequence); }
  Code send_credit(const Credit& credit) override;
  void stop() override { inner_->stop(); }

  void depart(const Credit& credit);  // its time has come
  bool retry();                       // true: an overdue credit left

 private:
  void clear_overdue();

  PacedTransportImpl& transport_;
  std::unique_ptr<Inbound> inner_;
  uint32_t capacity_;     // credits on their way, at most
  uint32_t on_way_ = 0;   // credits in the queue
  bool overdue_ = false;  // newest_ still has to leave
  Credit newest_;
};

class PacedOutbound final : public Outbound {
 public:
  PacedOutbound(PacedTransportImpl& transport, std::unique_ptr<Outbound> inner, uint32_t slots);
  ~PacedOutbound() override;

  Code send(Sequence sequence, const Frame& frame) override;

  Code depart(Sequence sequence, const Frame& frame);  // its time has come

 private:
  PacedTransportImpl& transport_;
  std::unique_ptr<Outbound> inner_;
  uint32_t slots_;
  bool down_ = false;
};

}  // namespace asyncmesh::transport
