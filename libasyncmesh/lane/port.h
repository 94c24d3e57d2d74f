// A port: the application's side of a set of lanes to and from the same peers. Mailbox and channel are policies over it.
//
// It joins three worlds:
//   * the application thread (one at a time): claim, commit, receive, release. Wait-free; never allocates, locks or enters the
//     kernel; back-pressure is kAgain, decided here from the lanes' published credit;
//   * the progress owner: takes submissions, feeds LaneWriter/LaneReader, publishes received frames and credit;
//   * the rings between them: one SPSC ring owner -> application for received frames, and the context's MPSC submission ring
//     application -> owner (behind Submitter) for commits and releases.
//
// Frames: claim() lends a staging buffer, the application packs meta and payload in place, commit() hands it to the owner for one
// or all outbound lanes (one buffer, refcounted, for a broadcast). A buffer returns to the pool when every lane has both its credit
// and its local completion, so the pool holds 2 x slots buffers. Received frames are lent in their slot until release().
//
// Loss: a peer that was lost or left makes its lanes dead: claim and commit skip them, frames already received stay readable;
// a reset link is invisible here but for lane_state() == kConnecting and the counters.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/spsc_ring.h"
#include "base/status.h"
#include "lane/frame.h"
#include "lane/lane_reader.h"
#include "lane/lane_writer.h"
#include "lane/staging.h"
#include "transport/transport.h"

namespace asyncmesh {

using transport::Rank;
using transport::Sequence;

class Port;

inline constexpr uint32_t kAllLanes = UINT32_MAX;

// What the application hands to the progress owner. `lane` indexes the port's lanes.
struct Submission {
  enum class Kind : uint32_t { kSend, kRelease };
  Port* port = nullptr;
  Kind kind = Kind::kSend;
  uint32_t lane = 0;       // kSend: a lane or kAllLanes
  uint32_t frame = 0;      // kSend: staging buffer
  uint32_t bytes = 0;      // kSend: whole frame
  Sequence sequence = 0;   // kRelease
};

// The way into the progress owner. `submit` is called by the application thread; the ring is sized so that it cannot be full.
class Submitter {
 public:
  virtual ~Submitter() = default;
  virtual void submit(const Submission& submission) noexcept = 0;
};

struct PortConfig {
  std::vector<Rank> outbound;  // peers this port writes to
  std::vector<Rank> inbound;   // peers this port reads from
  uint32_t slots = 4;          // per lane, power of two
  uint32_t payload_bytes = 0;  // largest payload
  bool checksum = false;       // CRC over payloads as well as headers
};

struct Received {
  FrameHeader header;                // validated copy
  const std::byte* payload = nullptr;  // lent until release
  uint32_t lane = 0;                 // index into PortConfig::inbound
  Rank source = 0;
  Sequence sequence = 0;
};

enum class LaneState : uint32_t { kConnecting, kOpen, kDead };

class Port {
 public:
  Port(const PortConfig& config, const Clock& clock, Submitter& submitter);

  const PortConfig& config() const { return config_; }

  // ---- application thread ----
  struct Claim {
    uint32_t frame = 0;
    std::byte* meta = nullptr;     // kMetaBytes
    std::byte* payload = nullptr;  // config().payload_bytes
  };
  // kAgain: no buffer, or a live target lane has no credit. kPeerLost: no live target lane is left. Takes nothing then.
  Code claim(uint32_t lane, Claim* claim_out) noexcept;
  void commit(const Claim& claim, uint32_t lane, uint32_t payload_bytes, uint8_t kind) noexcept;
  void abandon(const Claim& claim) noexcept;
  void mute(uint32_t lane) noexcept;  // kAllLanes skips this outbound lane from now on
  // The next received frame in arrival order, per lane in sequence. kAgain if none.
  Code receive(Received* received_out) noexcept;
  void release(const Received& received) noexcept;  // any order; slots are freed in order
  bool readable() const noexcept;
  bool writable(uint32_t lane) const noexcept;  // claim would succeed
  LaneState outbound_state(uint32_t lane) const noexcept;
  LaneState inbound_state(uint32_t lane) const noexcept;
  // Frames sent on `lane` that the reader's application has not taken yet (bound K of a channel), from published credit.
  uint64_t untaken(uint32_t lane) const noexcept;
  uint64_t unreleased(uint32_t lane) const noexcept;

  // ---- progress owner ----
  void execute_st(const Submission& submission);
  LaneWriter& writer_st(uint32_t lane) { return *writers_[lane]; }
  LaneReader& reader_st(uint32_t lane) { return *readers_[lane]; }
  StagingPool& staging_st() { return *staging_; }

 private:
  PortConfig config_;
  Submitter& submitter_;
  std::unique_ptr<StagingPool> staging_;
  std::unique_ptr<SpscRing<Received>> inbox_;
  std::vector<std::unique_ptr<LaneWriter>> writers_;
  std::vector<std::unique_ptr<LaneReader>> readers_;
};

}  // namespace asyncmesh
