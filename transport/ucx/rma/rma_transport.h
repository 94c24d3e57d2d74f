// The rma engine's transport and link, and how a sleeping owner is woken.
//
// A store into shared memory raises no event at the other side. An owner that spins needs none, so
// nothing is sent for it. An owner that is about to sleep (arm) tells each peer once, in a *sleep
// notice* with the number of *commits* it has seen on the link: frames of the lanes it reads, and
// credits in the arenas of the lanes it writes (credit that is a message wakes by itself). The peer
// then rings a *doorbell* for its next commit, or at once if it has made commits that the notice
// does not count: those crossed the notice on its way. One doorbell answers one notice, so commits
// that follow while the owner wakes up cost nothing. No store of one side has to be visible to the
// other before anything: notice and doorbell travel in order, and each side compares its own
// counts. Credits that the writer finds merged into one count as many as they were: the arena tells
// their number. The doorbell carries the peer's count, by which the owner forgets frames and
// credits on lanes that it closed meanwhile; without that every later notice would be answered at
// once. Where a doorbell may overtake a put (rc with several queue pairs), and where it is lost
// with a link that is about to fail, the owner's bounded sleep (10 ms at most) is the backstop.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "transport/ucx/rma/rma_lane.h"
#include "transport/ucx/ucx_engine.h"
#include "transport/ucx/ucx_link.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::transport {

class RmaLink final : public UcxLink {
 public:
  RmaLink(UcxDomain& domain, const Identity& identity, LinkSink& sink, const UcxConfig& config);
  ~RmaLink() override;
  Result<std::unique_ptr<Inbound>> open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                Sequence next, InboundSink& sink) override;
  Result<std::unique_ptr<Outbound>> open_outbound(LaneId lane, const LaneGeometry& geometry,
                                                  std::span<const std::byte> offer,
                                                  OutboundSink& sink) override;
  std::string describe() const override;

  // Of frames and credits of the peer.
  void note_seen(uint64_t commits) { seen_ += commits; }
  // May the owner sleep? Tells the peer, if so.
  bool arm();
  // What the newest doorbell or one that is due asks for; after the lanes were polled.
  void settle();

  // Of a frame or credit for the peer.
  void note_commit() {
    ++committed_;
    if (peer_asleep_) [[unlikely]]
      ring();
  }
  void note_direct(bool direct) { direct_ = direct; }

 private:
  bool expects_commits() const;
  bool announce_sleep();  // false: not possible now, progress first
  void on_control(const ControlMessage& message) override;
  void ring();

  bool direct_stores_;
  bool direct_ = false;     // the newest outbound lane uses direct stores
  bool announced_ = false;  // a notice is out that no doorbell has answered
  bool peer_asleep_ = false;
  bool ring_due_ = false;   // the doorbell before is still on its way
  uint64_t seen_ = 0;       // frames of all inbound lanes, credits of all outbound ones
  uint64_t committed_ = 0;  // frames of all outbound lanes, credits of all inbound ones
  uint64_t doorbell_ = 0;   // the peer's count in its last doorbell
  bool doorbell_came_ = false;
  std::shared_ptr<ControlSlot> notice_slot_;
  std::shared_ptr<ControlSlot> doorbell_slot_;
};

class RmaTransport final : public UcxTransport {
 public:
  using UcxTransport::UcxTransport;
  std::string_view name() const override { return "rma"; }
  Capabilities capabilities() const override {
    return {.remote_memory = true, .has_event_fd = true};
  }
  // kUnsupported: the peer cannot be reached by native RMA.
  Result<std::unique_ptr<Link>> open_link(Rank peer, Epoch epoch,
                                          std::span<const std::byte> peer_address,
                                          LinkSink& sink) override;
  uint32_t progress() override;
  bool arm() override;

 private:
  uint32_t poll();
  uint32_t progress_ucx();

  uint32_t rounds_ = 0;  // since progress_ucx
  uint32_t rounds_per_ucx_ = 1;
  Nanoseconds ucx_at_ = 0;
  bool ucx_is_fresh_ = false;  // the newest call of progress included UCX
};

}  // namespace asyncmesh::transport
