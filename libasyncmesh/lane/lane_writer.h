// The writing end of a lane: sequences, credit, retention and replay. Sans-I/O and without a clock:
// it acts on an Outbound that it is given, and `now` is the caller's.
//
// A frame is kept from append until the reader released it AND the transport no longer reads it.
// When the link is lost the writer keeps everything; `open_st` with the reader's resume point sends
// again all frames from there, in order, so fifo loses nothing; what the reader had already is
// below the resume point and only waits for its release, so nothing is doubled. A new incarnation
// of the peer voids the lane: `fail_st`.
//
//   connecting --open_st(resume)--> open --close_st--> connecting ...     any --fail_st--> dead
//
// Frames appended while connecting (before the first link too) leave at `open_st`. Credit comes
// from the data path or, as the answer to a probe, from the control socket: both call `on_credit`.
// It is cumulative, so repeated and late ones do no harm; one that no honest reader would send is
// not taken and becomes a fault of the link (`fault_st`).
//
// Threads: *_st and the sink belong to the progress owner; `has_credit`, `note_posted`, `state` and
// the counts to the application thread, which reads what the owner publishes (release/acquire).
// Nothing allocates after construction.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/cache_line.h"
#include "base/clock.h"
#include "lane/lane_state.h"
#include "lane/staging.h"
#include "transport/transport.h"

namespace asyncmesh {

struct LaneWriterCounters {
  uint64_t frames = 0;    // appended
  uint64_t bytes = 0;     // appended, whole frames
  uint64_t replayed = 0;  // frames sent again after a reset
  uint64_t credits = 0;   // received and valid
};

class LaneWriter final : public transport::OutboundSink {
 public:
  LaneWriter(uint32_t slots, StagingPool& staging);  // slots: a power of two
  ~LaneWriter() override;

  // ---- application thread ----
  // One more frame may be posted, besides `claims` that were promised but not posted yet.
  bool has_credit(uint64_t claims = 0) const noexcept { return unreleased() + claims < slots_; }
  void note_posted() noexcept { ++posted_; }  // one frame will be submitted
  uint64_t posted() const noexcept { return posted_; }
  LaneState state() const noexcept {
    // Pairs with the release in `publish_state`.
    return static_cast<LaneState>(published_state_.load(std::memory_order_acquire));
  }
  uint64_t untaken() const noexcept {  // posted - taken
    // Pairs with the release in `on_credit`.
    return posted_ - published_taken_.load(std::memory_order_acquire);
  }
  uint64_t unreleased() const noexcept {  // posted - released
    // Pairs with the release in `on_credit`.
    return posted_ - published_released_.load(std::memory_order_acquire);
  }

  // ---- progress owner ----
  // Takes over one staging reference; sends now if open, drops the frame if dead.
  void append_st(uint32_t buffer, uint32_t bytes);
  // `resume` is the reader's first wanted sequence; `staging_id` what the transport calls this
  // port's staging memory. kMismatch: the reader wants frames that it released before or that were
  // never sent: the lane cannot go on, fail it (`outbound` is closed, the lane stays connecting).
  // kPeerLost: the lane is dead.
  Code open_st(std::unique_ptr<transport::Outbound> outbound, transport::Sequence resume,
               uint32_t staging_id);
  void close_st();  // the link is gone; everything is retained
  void fail_st();   // the peer is gone; everything is dropped, the lane is dead

  void on_sent(transport::Sequence sequence) override;
  void on_credit(const transport::Credit& credit) override;

  // What the link's watchdog asks, regularly, while the lane is open. `now` may be any clock that
  // never goes back; silence counts from the first question after the last movement.
  //
  // True at most once per `quiet`: some frame is not released and nothing moved for `quiet`. Send
  // LANE_PROBE on the control socket: the reader states its credit (a lost one is made good), and
  // frames that it has not seen are lost or stuck.
  bool probe_due_st(Nanoseconds now, Nanoseconds quiet);
  // Some frame is not received and nothing moved for `timeout`: reset the link.
  bool stalled_st(Nanoseconds now, Nanoseconds timeout);
  // Not kOk: reset the link now (an impossible credit came, or the transport refused a frame).
  Code fault_st() const { return fault_; }
  transport::Sequence last_sequence_st() const { return next_ - 1; }
  const transport::Credit& credit_st() const { return credit_; }  // newest that came
  const LaneWriterCounters& counters_st() const { return counters_; }

 private:
  struct Retained {
    uint32_t buffer = 0;
    uint32_t bytes = 0;
    bool on_wire = false;  // handed to the transport in this epoch, on_sent not seen
  };
  Retained& at(transport::Sequence sequence) { return retained_[sequence & mask_]; }
  void publish_state(LaneState state) noexcept;
  void send_pending();
  void send(transport::Sequence sequence);
  void drop_done();
  void drop_released();
  void watch(Nanoseconds now);

  StagingPool& staging_;
  std::unique_ptr<transport::Outbound> outbound_;
  uint32_t staging_id_ = 0;
  const uint32_t slots_;
  const size_t mask_;               // of retained_
  std::vector<Retained> retained_;  // by sequence; as many entries as the pool has buffers
  transport::Sequence next_ = 1;    // sequence of the next append
  transport::Sequence unsent_ = 1;  // first sequence not handed to the transport in this epoch
  transport::Sequence oldest_ = 1;  // first sequence retained
  transport::Sequence sent_ = 0;    // last sequence handed to a transport in any epoch
  transport::Credit credit_;        // newest
  Code fault_ = Code::kOk;
  uint64_t moves_ = 0;           // on_sent, growth of credit_, (re)opening
  uint64_t watched_moves_ = 0;   // moves_ at the watchdog's last look
  Nanoseconds quiet_since_ = 0;  // since when moves_ stands still, as the watchdog saw it
  Nanoseconds probed_at_ = 0;    // the last probe, or quiet_since_
  LaneWriterCounters counters_;
  alignas(kCacheLine) std::atomic<uint64_t> published_released_{0};  // owner writes
  std::atomic<uint64_t> published_taken_{0};
  std::atomic<uint32_t> published_state_{static_cast<uint32_t>(LaneState::kConnecting)};
  alignas(kCacheLine) uint64_t posted_ = 0;  // application thread
};

}  // namespace asyncmesh
