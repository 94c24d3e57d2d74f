// Time in which this process was at work: the clock by which it judges the silence of others.
//
// A process that was stopped, swapped out or busy elsewhere has heard nobody meanwhile, and must
// not blame them for it. So a gap between two calls of `advance` counts as `largest_step` at most.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace asyncmesh::mesh {

// How all timers follow from the one knob, `peer_timeout`. A stopped process is removed after its
// silence (5/8), the tick of the observer (1/16) and that of the rendezvous (1/32): within 3/4.
struct Timers {
  explicit Timers(Nanoseconds peer_timeout)
      : heartbeat(peer_timeout / 8),
        tick(peer_timeout / 16),
        suspect(peer_timeout / 8 * 5),
        confirm(peer_timeout / 2),
        broken_link(peer_timeout / 4),
        unresolved(peer_timeout) {}

  Nanoseconds heartbeat;    // between two signs of life
  Nanoseconds tick;         // between two looks at the timers
  Nanoseconds suspect;      // silence after which a peer, or the rendezvous, is suspect
  Nanoseconds confirm;      // silence at the rendezvous that confirms another's suspicion
  Nanoseconds broken_link;  // a connection ended, yet both processes live: one has to go
  Nanoseconds unresolved;   // the same for silence between two that the rendezvous hears
};

class ProgressTime {
 public:
  ProgressTime(Nanoseconds now, Nanoseconds largest_step)
      : last_(now), largest_step_(largest_step) {}

  // Progress time so far; never goes back.
  Nanoseconds advance(Nanoseconds now) {
    elapsed_ += std::clamp<Nanoseconds>(now - last_, 0, largest_step_);
    last_ = std::max(last_, now);
    return elapsed_;
  }
  Nanoseconds elapsed() const { return elapsed_; }

 private:
  Nanoseconds last_;
  Nanoseconds largest_step_;
  Nanoseconds elapsed_ = 0;
};

}  // namespace asyncmesh::mesh
