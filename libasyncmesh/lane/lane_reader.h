// The reading end of a lane: order, validation, duplicates, release in order, credit. Sans-I/O and
// without a clock: `now` is the caller's.
//
// Frames are published to the port's inbox in sequence. A frame that comes early waits in its slot;
// a gap that stays for the link's timeout, a frame that does not validate, or a sequence outside
// the window is reported through `fault_st` and ends in a link reset. A sequence seen before is
// dropped and counted.
//
//      released_   taken    next_ - 1               released_ + slots
//   ----|------------|---------|-----------------------|------->  sequence
//       lent or done |  inbox  |  wanted, or early     | outside
//
// Reset: `close_st` stops the Inbound but keeps it while slots in it are lent; frames in it that
// the application had not taken are lent all the same (they are in the inbox). The resume point
// handed to the writer is the first sequence not yet published, so nothing is doubled. `fail_st`
// (the peer is gone) keeps what was published readable just so.
//
// Threads: *_st and the sink belong to the progress owner; `state` and `note_taken` to the
// application thread. Nothing allocates after construction.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/cache_line.h"
#include "base/clock.h"
#include "base/spsc_ring.h"
#include "base/status.h"
#include "lane/frame.h"
#include "lane/lane_state.h"
#include "transport/transport.h"

namespace asyncmesh {

struct LaneReaderCounters {
  uint64_t frames = 0;      // published
  uint64_t bytes = 0;       // published, payloads
  uint64_t duplicates = 0;  // dropped
  uint64_t invalid = 0;     // failed validation, or outside the window
  uint64_t credits = 0;     // sent
};

class LaneReader final : public transport::InboundSink {
 public:
  // `credit_takes`: frames taken after which credit leaves at once; 0: half of the slots. `inbox`
  // never fills up: it has room for the `slots` frames of each of its lanes.
  LaneReader(Origin origin, const transport::LaneGeometry& geometry, uint32_t credit_takes,
             SpscRing<Received>& inbox);
  ~LaneReader() override;

  // ---- application thread ----
  void note_taken() noexcept {  // one more frame was handed out
    // Pairs with the acquire in `credit_st`.
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Once kDead was seen, every frame that will ever come is in the inbox already.
  LaneState state() const noexcept {
    // Pairs with the release in `publish_state`.
    return static_cast<LaneState>(published_state_.load(std::memory_order_acquire));
  }

  // ---- progress owner ----
  // Opened with next == resume_st(). States its credit anew: the last one may be lost.
  void open_st(std::unique_ptr<transport::Inbound> inbound);
  void close_st();                                // the link is gone
  void fail_st();                                 // the peer is gone
  void release_st(transport::Sequence sequence);  // any order, once; a stray one is ignored
  transport::Sequence resume_st() const { return next_; }
  const transport::LaneGeometry& geometry() const { return geometry_; }
  transport::Credit credit_st() const;  // as of now; the answer to a probe
  // Sends credit when enough has accumulated, or whatever there is once `quiet` passed since it
  // was first found owing. Returns events handled.
  uint32_t flush_credit_st(Nanoseconds now, Nanoseconds quiet);
  bool credit_pending_st() const;  // open, and something is owed: come back within `quiet`
  // kOk, or kLinkError: the link must be reset (invalid frame; a gap found standing for `timeout`).
  Code fault_st(Nanoseconds now, Nanoseconds timeout);
  const LaneReaderCounters& counters_st() const { return counters_; }

  void on_frame(transport::Sequence sequence, std::byte* slot, uint32_t bytes) override;

 private:
  struct Early {
    std::byte* slot = nullptr;  // arrived before its predecessor
    uint32_t bytes = 0;
  };
  struct Retired {
    std::unique_ptr<transport::Inbound> inbound;  // stopped, slots still lent
    transport::Sequence end = 0;                  // it holds sequences below this
  };
  Early& early(transport::Sequence sequence) { return early_[sequence & (geometry_.slots - 1)]; }
  uint8_t& done(transport::Sequence sequence) { return done_[sequence & (geometry_.slots - 1)]; }
  void publish_state(LaneState state) noexcept;
  bool accept(std::byte* slot, uint32_t bytes);
  void retire();

  const Origin origin_;
  const transport::LaneGeometry geometry_;
  const uint32_t credit_takes_;
  SpscRing<Received>& inbox_;
  std::unique_ptr<transport::Inbound> inbound_;
  transport::Sequence inbound_from_ = 1;  // first sequence delivered by inbound_
  std::vector<Retired> retired_;          // each holds a lent slot, so there are at most `slots`
  std::vector<Early> early_;              // by sequence
  std::vector<uint8_t> done_;             // by sequence: released, but a predecessor is not
  uint32_t early_count_ = 0;
  transport::Sequence next_ = 1;      // next to publish
  transport::Sequence released_ = 0;  // cumulative
  transport::Credit sent_;            // newest that left
  bool restate_ = false;              // send credit even if it equals sent_
  bool invalid_ = false;
  transport::Sequence gap_at_ = 0;  // next_ at the watchdog's last look that found a gap
  Nanoseconds gap_since_ = kNever;
  Nanoseconds owed_since_ = kNever;
  LaneReaderCounters counters_;
  std::atomic<uint32_t> published_state_{static_cast<uint32_t>(LaneState::kConnecting)};
  alignas(kCacheLine) std::atomic<uint64_t> taken_{0};  // application writes
};

}  // namespace asyncmesh
