// What both engines' links share: the endpoint, its failure state, and the registry of lanes.
//
// An endpoint reports its failure once, through UCX's error callback, or by refusing an operation.
// From that moment nothing is posted on it. The failure is told to the LinkSink at the end of the
// worker's progress, never from inside a call of the owner. Lanes register themselves; a link that
// goes away detaches those that are left, which stops them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/ucx_control.h"
#include "transport/ucx/ucx_transport.h"
#include "transport/ucx/ucx_worker.h"

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
  UcxLink(UcxWorker& worker, const Identity& identity, LinkSink& sink, FrameHook hook);
  ~UcxLink() override;

  // The endpoint comes second, since its error callback needs the link. kUnsupported: no transport
  // of this context reaches it.
  Status connect(const ucp_address_t* address);

  UcxWorker& worker() { return worker_; }
  ucp_ep_h endpoint() const { return endpoint_; }
  Epoch epoch() const { return identity_.epoch; }
  bool failed() const { return failed_; }
  bool matches(uint64_t node, Epoch epoch) const {
    return node == identity_.peer_node && epoch == identity_.epoch;
  }
  void fail(std::string_view what, ucs_status_t status);
  void deliver_failure();

  // Fills in the sender's part of `message` and sends it through `slot`.
  Code send_control(ControlSlot& slot, ControlMessage message);
  uint32_t poll_lanes();  // UcxInbound::poll of all inbound lanes
  virtual void on_control(const ControlMessage& message);

  void add(UcxInbound* lane) { inbound_.push_back(lane); }
  void add(UcxOutbound* lane) { outbound_.push_back(lane); }
  void remove(UcxInbound* lane);
  void remove(UcxOutbound* lane);

  void step(FrameStep step, LaneId lane, Sequence sequence) const {
    if (hook_ != nullptr) [[unlikely]]
      hook_(step, lane, sequence);
  }
  bool hooked() const { return hook_ != nullptr; }

 protected:
  // Detaches all lanes, then closes the endpoint. Derived destructors call it while their own
  // members are alive.
  void close();
  Status check_open(LaneId lane, const LaneGeometry& geometry) const;
  std::string transports() const;  // of the endpoint: "tcp/eth0", "sysv + posix + cma"

  UcxWorker& worker_;
  std::vector<UcxInbound*> inbound_;
  std::vector<UcxOutbound*> outbound_;

 private:
  static void on_endpoint_error(void* self, ucp_ep_h endpoint, ucs_status_t status);

  Identity identity_;
  LinkSink& sink_;
  FrameHook hook_;
  ucp_ep_h endpoint_ = nullptr;  // owned: close_endpoint
  bool failed_ = false;
  bool told_ = false;
  Status failure_;
};

}  // namespace asyncmesh::transport
