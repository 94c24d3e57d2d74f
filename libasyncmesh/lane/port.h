// A port: the application's side of a set of lanes to and from the same peers. Mailbox and channel
// are policies over it.
//
// It joins three worlds:
//   * the application thread (one at a time): claim, commit, receive, release. Wait-free; never
//     allocates, locks or enters the kernel; back-pressure is kAgain, decided here from the lanes'
//     published credit;
//   * the progress owner: takes submissions, feeds LaneWriter/LaneReader, publishes received frames
//     and credit;
//   * the rings between them: one SPSC ring owner -> application for received frames, and the
//     context's MPSC submission ring application -> owner (behind Submitter) for commits, releases
//     and mutes.
//
// Frames: claim() lends a staging buffer, the application packs meta and payload in place, commit()
// hands it to the owner for one or all outbound lanes (one buffer, refcounted, for a broadcast). A
// buffer returns to the pool when every lane has both its credit and its local completion, so the
// pool holds 2 x slots buffers. Received frames are lent in their slot until release().
//
// Loss: a peer that was lost or left makes its lanes dead: claim and commit skip them, frames
// already received stay readable; a reset link is invisible here but for *_state() == kConnecting
// and the counters. A lane may die between claim, commit and execute_st: the owner then drops its
// reference, so the buffer comes back.
//
// Lifetime: destroy a Port before the transport of its lanes. The staging memory must outlive that
// transport once it is registered: hold `share_staging()` until then.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/spsc_ring.h"
#include "base/status.h"
#include "lane/frame.h"
#include "lane/lane_reader.h"
#include "lane/lane_state.h"
#include "lane/lane_writer.h"
#include "lane/staging.h"
#include "transport/transport.h"

namespace asyncmesh {

class Port;

inline constexpr uint32_t kAllLanes = UINT32_MAX;

// What the application hands to the progress owner. `lane` indexes the port's lanes.
// Whole words, since it is written and read within nanoseconds (copy_words.h).
struct Submission {
  enum class Kind : uint32_t { kSend, kRelease, kMute };
  Port* port = nullptr;
  uint64_t action = 0;  // kind, lane
  uint64_t detail = 0;  // kSend: staging buffer, bytes of the whole frame; kRelease: sequence

  // `lane`: an outbound lane, or kAllLanes.
  static Submission send(Port* port, uint32_t lane, uint32_t buffer, uint32_t bytes) {
    return {port, pair(static_cast<uint32_t>(Kind::kSend), lane), pair(buffer, bytes)};
  }
  static Submission release(Port* port, uint32_t lane, Sequence sequence) {
    return {port, pair(static_cast<uint32_t>(Kind::kRelease), lane), sequence};
  }
  static Submission mute(Port* port, uint32_t lane) {
    return {port, pair(static_cast<uint32_t>(Kind::kMute), lane), 0};
  }
  Kind kind() const { return static_cast<Kind>(action >> 32); }
  uint32_t lane() const { return static_cast<uint32_t>(action); }
  uint32_t buffer() const { return static_cast<uint32_t>(detail >> 32); }
  uint32_t bytes() const { return static_cast<uint32_t>(detail); }
  Sequence sequence() const { return detail; }

 private:
  static uint64_t pair(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }
};

// The way into the progress owner. `submit` is called by the application thread; the ring is sized
// (Port::max_submissions of all its ports) so that it cannot be full. Submissions of one thread
// reach execute_st in order.
class Submitter {
 public:
  virtual ~Submitter() = default;
  virtual void submit(const Submission& submission) noexcept = 0;
};

struct PortConfig {
  std::vector<Rank> outbound;  // peers this port writes to
  std::vector<Rank> inbound;   // peers this port reads from
  uint32_t slots = 4;          // per lane; rounded up to a power of two, at least 2
  uint32_t payload_bytes = 0;  // largest payload
  bool checksum = false;       // CRC over payloads as well as headers
  uint32_t credit_takes = 0;   // inbound: credit leaves at once after so many takes; 0: slots / 2
};

// Kept by the application thread.
struct PortCounters {
  uint64_t refused = 0;        // claims answered kAgain
  Nanoseconds blocked_ns = 0;  // from a first kAgain to the claim that succeeded
};

class Port final {
 public:
  Port(const PortConfig& config, const Clock& clock, Submitter& submitter);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const PortConfig& config() const { return config_; }
  // What both ends of a lane of this port must agree on.
  transport::LaneGeometry geometry() const {
    return {config_.slots, slot_bytes_for(config_.payload_bytes)};
  }
  // The most submissions that can be on their way at a time.
  uint32_t max_submissions() const;
  std::shared_ptr<StagingPool> share_staging() const { return staging_; }

  // ---- application thread ----
  struct Claim {
    uint32_t frame = 0;
    std::byte* meta = nullptr;     // kMetaBytes
    std::byte* payload = nullptr;  // config().payload_bytes
  };
  // Exactly one commit or abandon must follow. kAgain: no buffer, or a live target lane has no
  // credit. kPeerLost: no live target lane is left. Takes nothing then.
  Code claim(uint32_t lane, Claim* claim_out) noexcept;
  // As claim(kAllLanes), but asks no lane for credit; for a frame that has nowhere to go.
  Code claim_buffer(Claim* claim_out) noexcept;
  // `lane` as in the claim; payload_bytes <= config().payload_bytes.
  void commit(const Claim& claim, uint32_t lane, uint32_t payload_bytes, uint8_t kind) noexcept;
  void abandon(const Claim& claim) noexcept;
  Code refuse() noexcept;  // counts a refusal that the policy above decided; answers kAgain
  void mute(uint32_t lane) noexcept;  // kAllLanes skips this outbound lane from now on
  // The next received frame in arrival order, per lane in sequence. kAgain if none.
  Code receive(Received* received_out) noexcept;
  void release(const Received& received) noexcept;  // any order, once; slots are freed in order
  bool readable() const noexcept { return !inbox_.empty(); }
  bool writable(uint32_t lane) const noexcept;  // claim would succeed
  LaneState outbound_state(uint32_t lane) const noexcept { return writers_[lane]->state(); }
  // Once kDead was seen, every frame that will ever come from the lane is readable.
  LaneState inbound_state(uint32_t lane) const noexcept { return readers_[lane]->state(); }
  // Frames committed on `lane`, ever; of those: not taken by the reader's application (bound K of
  // a channel), not released by it; from published credit.
  uint64_t posted(uint32_t lane) const noexcept { return writers_[lane]->posted(); }
  uint64_t untaken(uint32_t lane) const noexcept { return writers_[lane]->untaken(); }
  uint64_t unreleased(uint32_t lane) const noexcept { return writers_[lane]->unreleased(); }
  const PortCounters& counters() const { return counters_; }

  // ---- progress owner ----
  void execute_st(const Submission& submission);
  // The peer is gone: every lane to and from it dies. Its published frames stay readable.
  void fail_peer_st(Rank peer);
  LaneWriter& writer_st(uint32_t lane) { return *writers_[lane]; }
  LaneReader& reader_st(uint32_t lane) { return *readers_[lane]; }
  StagingPool& staging_st() { return *staging_; }

 private:
  Code ask_lanes(uint32_t lane) const noexcept;
  bool is_target(uint32_t lane) const noexcept;
  Code take_buffer(Claim* claim_out) noexcept;
  void broadcast_st(uint32_t buffer, uint32_t bytes);

  PortConfig config_;
  const Clock& clock_;
  Submitter& submitter_;
  std::shared_ptr<StagingPool> staging_;  // before the lanes, which hold references into it
  SpscRing<Received> inbox_;
  std::vector<std::unique_ptr<LaneWriter>> writers_;
  std::vector<std::unique_ptr<LaneReader>> readers_;
  // Application thread.
  std::vector<uint8_t> muted_;          // by outbound lane
  uint64_t claims_ = 0;                 // claimed, neither committed nor abandoned
  Nanoseconds refused_since_ = kNever;  // the first kAgain in a row
  PortCounters counters_;
  // Progress owner.
  alignas(kCacheLine) std::vector<uint8_t> muted_st_;  // as muted_, in the order of submissions
};

}  // namespace asyncmesh
