// What both engines' links share: the connection, its failure state, and the registry of lanes.
//
// A connection reports its failure once, through UCX's error callback, or by refusing an operation.
// From that moment nothing is posted on it. The failure is told to the LinkSink from the
// transport's progress, never from inside a call of the owner. Lanes register themselves; a link
// that goes away detaches those that are left, which stops them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/ucx_connection.h"
#include "transport/ucx/ucx_control.h"
#include "transport/ucx/ucx_domain.h"
#include "transport/ucx/ucx_offer.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::transport {

class UcxInbound;
class UcxOutbound;

class UcxLink : public Link {
 public:
  struct Identity {
    Rank peer = 0;
    Epoch epoch = 0;
    uint64_t peer_node = 0;
  };
  UcxLink(UcxDomain& domain, const Identity& identity, LinkSink& sink, FrameHook hook);
  ~UcxLink() override;
  Status open();

  UcxDomain& domain() { return domain_; }
  bool connecting() const { return connecting_; }  // frames must not be delivered now
  bool is_open() const { return connection_ != nullptr; }
  UcxConnection& connection() { return *connection_; }
  const UcxConnection& connection() const { return *connection_; }
  ucp_ep_h endpoint() const { return connection_->endpoint(); }
  Epoch epoch() const { return identity_.epoch; }
  bool failed() const { return failed_; }
  void fail(std::string_view what, ucs_status_t status);
  void deliver_failure();

  // Connects to the peer's worker, if that is not done, and says hello. kUnsupported: no transport
  // of this context reaches it.
  Status connect(std::span<const std::byte> worker_address);
  // Fills in the sender's part of `message` and sends it through `slot`. kAgain also while the link
  // is not connected.
  Code send_control(ControlSlot& slot, ControlMessage message) {
    return send_control(slot, message, {});
  }
  void receive_control(const ControlMessage& message, std::span<const std::byte> payload);
  uint32_t progress();    // of the connection
  uint32_t poll_lanes();  // UcxInbound::poll of all inbound lanes

  void add(UcxInbound* lane) { inbound_.push_back(lane); }
  void add(UcxOutbound* lane) { outbound_.push_back(lane); }
  void remove(UcxInbound* lane) { std::erase(inbound_, lane); }
  void remove(UcxOutbound* lane) { std::erase(outbound_, lane); }

  void step(FrameStep step, LaneId lane, Sequence sequence) const {
    if (hook_ != nullptr) [[unlikely]]
      hook_(step, lane, sequence);
  }
  bool hooked() const { return hook_ != nullptr; }

 protected:
  // Detaches all lanes, then closes the connection. Derived destructors call it while their own
  // members are alive.
  void close();
  virtual void on_control(const ControlMessage& message);
  Status check_open(LaneId lane, const LaneGeometry& geometry) const;

  UcxDomain& domain_;
  std::vector<UcxInbound*> inbound_;
  std::vector<UcxOutbound*> outbound_;

 private:
  Code send_control(ControlSlot& slot, ControlMessage message, std::span<const std::byte> payload);

  Identity identity_;
  LinkSink& sink_;
  FrameHook hook_;
  bool failed_ = false;
  bool told_ = false;
  bool connecting_ = false;
  Status failure_;
  Bytes peer_worker_;  // from a hello that waits to be answered
  std::shared_ptr<ControlSlot> hello_slot_;
  std::unique_ptr<UcxConnection> connection_;
};

}  // namespace asyncmesh::transport
