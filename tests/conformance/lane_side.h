// One process of a pair, as the lane protocol needs it: a transport, the link to the other side,
// ports, and what a link manager does with them: offers, probes, and after any fault a reset of the
// link into the next epoch, with replay.
//
//   fault, stall, link down, or an offer of a later epoch
//      -> close all lanes and the link, open epoch + 1, open the inbound lanes at their resume
//      points, send their offers
//   an offer of this epoch -> open the outbound lane, which replays
//
// Both sides may reset at once: they then meet in the same epoch. The control socket is a queue
// (ControlQueue), the only thing that two sides on two threads share. A side belongs to one thread,
// which is its application and its progress owner.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/spsc_ring.h"
#include "lane/port.h"
#include "tests/conformance/test_clock.h"
#include "transport/transport.h"

namespace asyncmesh::conformance {

struct ControlMessage {
  enum class Kind { kOffer, kProbe, kCredit };
  Kind kind = Kind::kOffer;
  transport::Epoch epoch = 0;
  transport::LaneId lane = 0;  // index of the port
  transport::Bytes offer;      // kOffer
  transport::Sequence resume = 0;
  transport::Credit credit;  // kCredit
};

class ControlQueue {
 public:
  void push(ControlMessage message);
  bool pop(ControlMessage* message_out);

 private:
  std::mutex mutex_;
  std::deque<ControlMessage> messages_;
};

struct LaneSideConfig {
  Rank self = 0;
  std::vector<PortConfig> ports;  // one lane each way per port
  Nanoseconds quiet = 2 * kMillisecond;
  Nanoseconds timeout = 40 * kMillisecond;
};

class LaneSide final : private transport::LinkSink, private Submitter {
 public:
  LaneSide(const LaneSideConfig& config, std::unique_ptr<transport::Transport> transport,
           const Clock& clock, ControlQueue& in, ControlQueue& out);

  transport::Transport& transport() { return *transport_; }
  Port& port(size_t index) { return *ports_[index]; }
  size_t port_count() const { return ports_.size(); }
  uint32_t resets() const { return epoch_ - 1u; }
  uint64_t replayed();
  const std::string& error() const { return error_; }  // empty: nothing went wrong for good

  void start(transport::Bytes peer_address);
  uint32_t step();  // returns the events handled
  void reset();     // as after a fault

 private:
  void on_link_down(Rank peer, transport::Epoch epoch, const Status& why) override;
  void submit(const Submission& submission) noexcept override;
  void enter(transport::Epoch epoch);
  void handle(const ControlMessage& message);
  void accept_offer(const ControlMessage& message);
  bool faulted(Nanoseconds now);
  void fail(const Status& status);

  LaneSideConfig config_;
  const Rank peer_;
  const Clock& clock_;
  ControlQueue& in_;
  ControlQueue& out_;
  std::string error_;
  SpscRing<Submission> submissions_;
  std::vector<std::shared_ptr<StagingPool>> stagings_;  // outlive the transport
  std::unique_ptr<transport::Transport> transport_;     // outlives the lanes
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<uint32_t> staging_ids_;
  transport::Bytes peer_address_;
  std::unique_ptr<transport::Link> link_;
  transport::Epoch epoch_ = 0;
  bool broken_ = false;  // the link of this epoch
};

}  // namespace asyncmesh::conformance
