// The reading end of a lane: order, validation, duplicates, release in order, credit. Sans-I/O.
//
// Frames are published to the port's inbox in sequence. A frame that comes early waits in its slot; a gap that stays for the link's
// timeout, a frame that does not validate, or a sequence outside the window is reported through `fault_st` and ends in a link reset.
// A sequence seen before is dropped and counted.
//
// Reset: `close_st` stops the Inbound but keeps it while slots in it are lent; frames in it that the application had not taken
// are lent all the same (they are in the inbox). The resume point handed to the writer is the first sequence not yet published, so nothing is doubled.
//
// Threads: *_st and the sink belong to the progress owner; `state` and `note_taken` to the application thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/cache_line.h"
#include "base/clock.h"
#include "base/status.h"
#include "lane/frame.h"
#include "transport/transport.h"

namespace asyncmesh {

enum class LaneState : uint32_t;
struct Received;

struct LaneReaderCounters {
  uint64_t frames = 0;      // published
  uint64_t bytes = 0;       // published, payloads
  uint64_t duplicates = 0;  // dropped
  uint64_t invalid = 0;     // failed validation
  uint64_t credits = 0;     // sent
};

// Where a reader puts what it accepts: the port's inbox.
class ReaderOwner {
 public:
  virtual ~ReaderOwner() = default;
  virtual void publish_st(uint32_t lane, transport::Sequence sequence, const FrameHeader& header, const std::byte* payload) = 0;
};

class LaneReader final : public transport::InboundSink {
 public:
  LaneReader(uint32_t lane, const transport::LaneGeometry& geometry, const Clock& clock, ReaderOwner& owner);

  // ---- application thread ----
  void note_taken() noexcept;  // one more frame was handed out
  LaneState state() const noexcept;

  // ---- progress owner ----
  void open_st(std::unique_ptr<transport::Inbound> inbound);  // opened with next == resume_st()
  void close_st();                                            // the link is gone
  void fail_st();                                             // the peer is gone
  void release_st(transport::Sequence sequence);              // any order
  transport::Sequence resume_st() const { return next_; }
  const transport::LaneGeometry& geometry() const { return geometry_; }
  transport::Credit credit_st() const;  // as of now; the answer to a probe
  // Sends credit when enough has accumulated, or whatever there is once `quiet` passed since it accrued. Returns events handled.
  uint32_t flush_credit_st(Nanoseconds now, Nanoseconds quiet);
  bool credit_pending_st() const;
  // Ok, or why the link must be reset (invalid frame; gap older than `timeout`).
  Code fault_st(Nanoseconds now, Nanoseconds timeout) const;
  const LaneReaderCounters& counters_st() const { return counters_; }

  void on_frame(transport::Sequence sequence, std::byte* slot, uint32_t bytes) override;

 private:
  struct Early {
    std::byte* slot = nullptr;  // arrived before its predecessor
    uint32_t bytes = 0;
  };
  struct Lent {
    bool released = false;
  };
  void accept(transport::Sequence sequence, std::byte* slot, uint32_t bytes);

  uint32_t lane_;
  transport::LaneGeometry geometry_;
  const Clock& clock_;
  ReaderOwner& owner_;
  std::unique_ptr<transport::Inbound> inbound_;
  transport::Sequence inbound_from_ = 1;                    // first sequence delivered by inbound_
  std::vector<std::unique_ptr<transport::Inbound>> retired_;  // stopped, slots still lent
  std::vector<transport::Sequence> retired_to_;             // retired_[i] holds sequences below this
  std::vector<Early> early_;                                // by sequence % slots
  std::vector<Lent> lent_;                                  // by sequence % (2 x slots)
  transport::Sequence next_ = 1;                            // next to publish
  transport::Sequence released_ = 0;                        // cumulative
  transport::Credit sent_;                                  // newest that left
  Nanoseconds gap_since_ = kNever;
  Nanoseconds owed_since_ = kNever;
  bool invalid_ = false;
  LaneReaderCounters counters_;
  alignas(kCacheLine) std::atomic<uint64_t> taken_{0};  // application writes
  std::atomic<uint32_t> published_state_{0};            // owner writes
};

}  // namespace asyncmesh
