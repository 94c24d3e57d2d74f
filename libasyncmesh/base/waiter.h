// How a blocking call waits: the one place where the application thread may block, always with a
// deadline.
//
// The core implements it: with a progress thread it sleeps until the owner publishes something; in
// manual mode it runs do_work itself. Tests implement it by pumping fakes.
#pragma once

#include "base/clock.h"
#include "base/status.h"

namespace asyncmesh {

class Waiter {
 public:
  virtual ~Waiter() = default;
  // Returns kOk when something may have changed since the last call (spurious returns are fine: the
  // caller re-checks its condition), kTimeout at `deadline` (absolute), or why waiting is pointless
  // (kCanceled).
  virtual Code wait(Nanoseconds deadline) noexcept = 0;
};

}  // namespace asyncmesh
