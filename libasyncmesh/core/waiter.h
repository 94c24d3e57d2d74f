// How the application's blocking calls wait (base/waiter.h).
//
// With a progress thread: sleep until the owner announces activity. Manual: the call becomes the
// progress owner and moves things itself; if another thread of the application is in do_work just
// now, it waits for what that one announces.
//
// A CoreWaiter belongs to one object and one caller at a time: it remembers the activity that its
// caller has seen, so that nothing published between the caller's check and `wait` is slept over.
#pragma once

#include "base/waiter.h"
#include "core/context.h"

namespace asyncmesh::core {

class CoreWaiter final : public Waiter {
 public:
  explicit CoreWaiter(Context& context) : context_(context) {}
  Code wait(Nanoseconds deadline) noexcept override;

 private:
  Context& context_;
  uint64_t seen_ = 0;
};

}  // namespace asyncmesh::core
