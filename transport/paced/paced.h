// Decorator that emulates a slow link: everything that leaves its transport (all links and lanes,
// frames and credits) passes one token bucket and then waits for the one-way latency. Receiving is
// not touched: the peer paces what it sends.
//
//   send -> | one FIFO | bucket: bytes / rate | + latency | -> inner transport        send_credit
//   -> the same FIFO
//
// Frames are not copied: they stay in the sender's staging buffer, which the seam keeps valid until
// on_sent; on_sent comes when the inner transport is done with the frame, so a paced frame is held
// for its serialisation time and latency. The bucket runs on absolute time: a late progress call
// delays a frame but costs no rate. After idling, up to `burst_bytes` pass at once.
//
// next_deadline says when the head of the FIFO is due; an owner that sleeps must wake for it.
// Capacity of the FIFO is reserved when a lane is opened; nothing allocates per frame. Threads:
// those of the inner transport.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "transport/transport.h"

namespace asyncmesh::transport {

struct PacedConfig {
  uint64_t bytes_per_second = 0;  // 0: unlimited
  Nanoseconds latency = 0;        // one way
  uint64_t burst_bytes = 0;       // credit of an idle bucket

  bool none() const { return bytes_per_second == 0 && latency == 0; }
};

// "RATE,DELAY", "RATE" or "none": "200Mbit,5ms", "1Gbit,100us", "25MB,0ms", "none,2ms". Rates: kbit
// Mbit Gbit (bits/s), kB MB GB (bytes/s), powers of 1000, fractions allowed, "none" for unlimited.
// Delays: ns us ms s. The burst becomes what the rate carries in 1 ms, at most 64 KiB.
Result<PacedConfig> parse_link(std::string_view text);

// The inverse, for people: "200Mbit,5ms".
std::string format_link(const PacedConfig& config);

struct PacedCounters {
  uint64_t frames = 0;   // handed to the inner transport
  uint64_t credits = 0;  // likewise
  uint64_t bytes = 0;    // of both
};

class PacedTransport : public Transport {
 public:
  virtual const PacedCounters& counters() const = 0;  // progress owner only
};

std::unique_ptr<PacedTransport> make_paced(std::unique_ptr<Transport> inner,
                                           const PacedConfig& config, const Clock& clock);

}  // namespace asyncmesh::transport
