// Decorator that injects faults into what its own side *receives*, and cuts links. For tests: put
// one on each side.
//
// All faults are decided by one seeded generator in the order of arrival, so a run driven by hand
// is repeatable. Frames are damaged in the slot, which is the receiver's private memory, never in
// the sender's shared staging buffer. With `corrupt` the lane layer needs checksums over payloads,
// else nobody can notice.
//
//   drop       on_frame never comes             -> a gap at the reader
//   duplicate  on_frame comes again, at once or after a later frame, while the slot is not released
//   delay      on_frame comes `delay` later; frames behind it overtake (reordering)
//   corrupt    one bit of the frame is flipped
//   drop_credit  on_credit never comes          -> the writer has to probe
//   cut        the link stops for good: half of the cuts report on_link_down, half are silent
//   (nothing arrives, nothing leaves,
//              on_sent stays away), so that only a deadline of the layer above can notice
//
// Faults end after `max_faults` or above epoch `last_epoch`, whichever comes first, so that every
// run does end.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "transport/transport.h"

namespace asyncmesh::transport {

struct FaultyConfig {
  uint64_t seed = 1;
  double drop = 0;  // probabilities per frame, per credit
  double duplicate = 0;
  double delay = 0;
  double corrupt = 0;
  double drop_credit = 0;
  double cut = 0;                    // per frame that arrives
  Nanoseconds delay_ns = 1'000'000;  // how long a delayed frame is held, at most
  uint64_t max_faults = UINT64_MAX;  // of all kinds together
  Epoch last_epoch = UINT16_MAX;     // links of later epochs are left alone
};

// What was injected so far.
struct FaultyCounters {
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t delayed = 0;
  uint64_t corrupted = 0;
  uint64_t credits_dropped = 0;
  uint64_t cuts_reported = 0;
  uint64_t cuts_silent = 0;

  uint64_t total() const {
    return dropped + duplicated + delayed + corrupted + credits_dropped + cuts_reported +
           cuts_silent;
  }
};

class FaultyTransport : public Transport {
 public:
  virtual const FaultyCounters& counters() const = 0;  // progress owner only
};

std::unique_ptr<FaultyTransport> make_faulty(std::unique_ptr<Transport> inner,
                                             const FaultyConfig& config, const Clock& clock);

}  // namespace asyncmesh::transport
