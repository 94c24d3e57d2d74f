// A channel: one direction between two ranks with a version clock and a staleness bound.
//
// Frames carry {kind, micro-batch, producer's version, shape, dtype}. Bound K: frames sent and not
// yet taken by the consumer. Bound V: versions between a frame to be sent and the oldest frame that
// the consumer has not taken (with none untaken the frame may go, however far apart, so that a slow
// consumer delays but never locks). Beyond either, `send` answers kAgain. Frames are never dropped
// and never reordered; one that is not a channel frame (its meta contradicts itself) is released,
// counted in `malformed` and never seen.
//
// On receipt the staleness is measured in versions: consumer_version - frame.version, where
// consumer_version is what the consumer last told `set_version` (its own count of updates); the
// histogram is kept.
//
// Threads: as Port, one application thread per end.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "lane/port.h"

namespace asyncmesh {

enum class ChannelKind : uint8_t { kTrain = 1, kEvaluate = 2, kControl = 3 };

inline constexpr uint32_t kMaxDimensions = 4;

// Travels in FrameHeader::meta (little endian, 64 bytes; layout pinned in channel.cc).
struct ChannelMeta {
  ChannelKind kind = ChannelKind::kTrain;  // travels as FrameHeader::kind
  uint8_t dtype = 0;                       // asyncmesh_dtype_t; opaque here
  uint8_t dimensions = 0;                  // 0..kMaxDimensions
  uint64_t micro_batch = 0;
  uint64_t version = 0;  // updates the producer had applied
  std::array<uint32_t, kMaxDimensions> shape{};
};

struct ChannelConfig {
  Rank peer = 0;
  bool sender = true;
  uint32_t slots = 4;  // power of two; >= frames lent at a time + 1
  uint32_t payload_bytes = 0;
  uint32_t max_untaken = 0;   // K; 0: slots
  uint32_t max_versions = 0;  // V; 0: no bound
  bool checksum = false;
};

struct ChannelFrame {
  ChannelMeta meta;
  const std::byte* payload = nullptr;  // lent until release; 64-byte aligned
  uint32_t bytes = 0;
  int64_t staleness = 0;  // versions, as measured at receive
  Received received;      // for release
};

inline constexpr uint32_t kStalenessBuckets = 16;  // 0, 1, ..., 14, 15 and more (negative: as 0)

class Channel {
 public:
  Channel(const ChannelConfig& config, const Clock& clock, Submitter& submitter);

  // The payload is copied when it returns. kTooLarge above payload_bytes (nothing sent); kAgain
  // beyond K, V or credit; kPeerLost; kInvalidArgument: more than kMaxDimensions; kInvalidState at
  // the receiving end.
  Code send(const ChannelMeta& meta, const void* payload, uint32_t bytes) noexcept;
  // kAgain: none; kPeerLost: none, and none will come; kInvalidState at the sending end.
  Code receive(ChannelFrame* frame_out) noexcept;
  void release(const ChannelFrame& frame) noexcept;
  void set_version(uint64_t version) noexcept { version_ = version; }
  // Sender: a frame of the version last told (set_version, or sent if newer) would be accepted;
  // receiver: a frame is there.
  bool ready() const noexcept;
  const std::array<uint64_t, kStalenessBuckets>& staleness_histogram() const { return histogram_; }
  uint64_t malformed() const noexcept { return malformed_; }  // frames dropped by receive
  const ChannelConfig& config() const { return config_; }
  Port& port() { return *port_; }

 private:
  bool within_bounds(uint64_t version) const noexcept;
  void note_staleness(int64_t staleness) noexcept;

  ChannelConfig config_;
  std::unique_ptr<Port> port_;
  uint64_t version_ = 0;
  uint64_t malformed_ = 0;
  std::array<uint64_t, kStalenessBuckets> histogram_{};
  std::vector<uint64_t> sent_versions_;  // by sequence, for bound V
};

}  // namespace asyncmesh
