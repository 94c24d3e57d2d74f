// The writing end of a lane: sequences, credit, retention and replay. Sans-I/O: it acts on an Outbound that it is given.
//
// A frame is kept from append until the reader released it AND the transport no longer reads it. When the link is lost the writer
// keeps everything; `open_st` with the reader's resume point sends again all frames from there, in order, so fifo loses nothing;
// what the reader had already is below the resume point and is dropped, so nothing is doubled. A new incarnation of the peer
// voids the lane: `fail_st`.
//
//   closed --open_st(resume)--> open --close_st--> closed ...     any --fail_st--> dead
//
// Threads: *_st and the sink belong to the progress owner. `has_credit`, `note_posted`, `state` and the counts belong to the
// application thread, which reads what the owner publishes (release/acquire).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/cache_line.h"
#include "base/clock.h"
#include "lane/staging.h"
#include "transport/transport.h"

namespace asyncmesh {

enum class LaneState : uint32_t;

struct LaneWriterCounters {
  uint64_t frames = 0;    // appended
  uint64_t bytes = 0;     // appended, whole frames
  uint64_t replayed = 0;  // frames sent again after a reset
  uint64_t credits = 0;   // received
};

class LaneWriter final : public transport::OutboundSink {
 public:
  LaneWriter(uint32_t slots, StagingPool& staging, const Clock& clock);

  // ---- application thread ----
  bool has_credit() const noexcept;  // posted - released < slots
  void note_posted() noexcept;       // one frame will be submitted
  LaneState state() const noexcept;
  uint64_t untaken() const noexcept;     // posted - taken
  uint64_t unreleased() const noexcept;  // posted - released

  // ---- progress owner ----
  void append_st(uint32_t buffer, uint32_t bytes);  // takes over one staging reference; sends now if open
  // `resume` is the reader's first wanted sequence; `staging_id` what the transport calls this port's staging memory.
  void open_st(std::unique_ptr<transport::Outbound> outbound, transport::Sequence resume, uint32_t staging_id);
  void close_st();  // the link is gone; everything is retained
  void fail_st();   // the peer is gone; everything is dropped, the lane is dead

  void on_sent(transport::Sequence sequence) override;
  void on_credit(const transport::Credit& credit) override;

  // What the link's watchdog asks. A probe (LANE_PROBE on the control socket) asks the reader to state its credit.
  bool probe_due_st(Nanoseconds now, Nanoseconds quiet) const;    // unreceived frames, and nothing moved for `quiet`
  bool stalled_st(Nanoseconds now, Nanoseconds timeout) const;    // likewise for `timeout`: reset the link
  transport::Sequence last_sequence_st() const { return next_ - 1; }
  const LaneWriterCounters& counters_st() const { return counters_; }

 private:
  struct Retained {
    uint32_t buffer = 0;
    uint32_t bytes = 0;
    bool on_wire = false;  // handed to the transport in this epoch, on_sent not seen
  };
  Retained& at(transport::Sequence sequence) { return retained_[sequence & (retained_.size() - 1)]; }
  void send_pending();
  void drop_done();

  StagingPool& staging_;
  const Clock& clock_;
  std::unique_ptr<transport::Outbound> outbound_;
  uint32_t staging_id_ = 0;
  std::vector<Retained> retained_;         // 2 x slots entries, by sequence
  uint32_t slots_;
  transport::Sequence next_ = 1;           // sequence of the next append
  transport::Sequence unsent_ = 1;         // first sequence not handed to the transport in this epoch
  transport::Sequence oldest_ = 1;         // first sequence retained
  transport::Credit credit_;               // newest
  Nanoseconds moved_at_ = 0;               // last on_sent, or growth of credit_.received
  LaneWriterCounters counters_;
  alignas(kCacheLine) std::atomic<uint64_t> published_released_{0};  // owner writes
  std::atomic<uint64_t> published_taken_{0};
  std::atomic<uint32_t> published_state_{0};
  alignas(kCacheLine) uint64_t posted_ = 0;  // application thread
};

}  // namespace asyncmesh
