// Every timer of a link, derived from the one knob `peer_timeout`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace asyncmesh::core {

struct LinkTimers {
  Nanoseconds probe = 0;          // unreleased frames and no movement: ask for the credit
  Nanoseconds gap = 0;            // a frame overtook one that does not come: reset
  Nanoseconds stall = 0;          // unreceived frames and no movement: reset
  Nanoseconds watch = 0;          // between two looks at the three above
  Nanoseconds credit_quiet = 0;   // a credit that is owed waits so long for company
  Nanoseconds backoff_first = 0;  // between a failed link and the next; doubles while nothing moves
  Nanoseconds backoff_last = 0;
  Nanoseconds give_up = 0;      // resets without any movement for so long: the link has failed
  uint32_t give_up_resets = 8;  // and at least so many

  static LinkTimers from(Nanoseconds peer_timeout) {
    LinkTimers timers;
    timers.probe = std::max<Nanoseconds>(peer_timeout / 16, 1'000'000);
    timers.gap = std::max<Nanoseconds>(peer_timeout / 4, 1'000'000);
    timers.stall = peer_timeout;
    timers.watch = 1'000'000;
    timers.credit_quiet = 20'000;
    timers.backoff_first = 2'000'000;
    timers.backoff_last = std::max<Nanoseconds>(peer_timeout / 8, timers.backoff_first);
    timers.give_up = 2 * peer_timeout;
    return timers;
  }
};

std::string describe(const LinkTimers& timers);  // for the log and bug reports

}  // namespace asyncmesh::core
