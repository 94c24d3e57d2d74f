// Progress: the one function that moves everything, and how its owner sleeps.
//
// One progress owner per context: the progress thread, or in manual mode whoever calls do_work or
// blocks in a call (one at a time, guarded by a flag that nobody waits for). Per round it takes
// operations from the application, drives the participant (the mesh: its transports, control
// sockets and timers), and tells waiting application threads that something moved.
//
//      operations -> participant.progress_st -> activity (waiters)
//
// Idle owners spin for a moment where cores allow, then arm the transports and sleep in ppoll over
// their event fds, the mesh's and the doorbell, until the next deadline, at most 10 ms.
// Threads: *_st belong to the progress owner.
#pragma once

#include <poll.h>

#include <atomic>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/event_count.h"
#include "core/operation.h"

namespace asyncmesh::core {

// What the owner drives besides the operations. Attached and detached by commands.
class Participant {
 public:
  virtual ~Participant() = default;
  virtual uint32_t progress_st(Nanoseconds now) = 0;  // returns events handled
  // Last chance before a sleep: lets out what was held back. False: there is work, do not sleep.
  virtual bool arm_st(Nanoseconds now) = 0;
  virtual Nanoseconds next_deadline_st() const = 0;
  virtual void add_fds_st(std::vector<pollfd>& fds) const = 0;
  virtual void woken_st(Nanoseconds now, std::span<const pollfd> fds) = 0;  // those it added
  // How long an idle owner should spin before it sleeps; 0 where threads outnumber cores.
  virtual Nanoseconds spin_st() const = 0;
};

// "Something moved": a counter that only grows, and a place to sleep on it.
class Activity {
 public:
  uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  void announce() noexcept {
    // Pairs with the acquire in `count`: what was published before is visible to whoever sees it.
    count_.fetch_add(1, std::memory_order_release);
    sleepers_.notify();
  }
  // Returns when count() != seen, or false at the deadline.
  bool wait(uint64_t seen, Nanoseconds deadline) noexcept;

 private:
  std::atomic<uint64_t> count_{0};
  EventCount sleepers_;
};

class Progress {
 public:
  Progress(const Clock& clock, OperationRing& operations, Activity& activity);

  // One round; returns the number of events handled, 0 = idle.
  uint32_t do_work_st();
  // One round; if it was idle, waits (spin, then sleep) until something may have happened or
  // `deadline`. Returns the number of events handled.
  uint32_t step_st(Nanoseconds deadline);
  void drain_operations_st();

  void attach_st(Participant* participant) { participant_ = participant; }
  void detach_st() { participant_ = nullptr; }

 private:
  uint32_t operations_st();
  bool spin_st(Nanoseconds deadline);
  void sleep_st(Nanoseconds deadline);

  const Clock& clock_;
  OperationRing& operations_;
  Activity& activity_;
  Participant* participant_ = nullptr;
  std::vector<pollfd> fds_;
  Nanoseconds idle_since_ = kNever;
};

}  // namespace asyncmesh::core
