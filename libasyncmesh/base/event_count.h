// Sleeping on a condition that is read without a lock.
//
//      waiter                                         notifier
//      while (!condition()) {                         make condition() true
//        const auto key = events.prepare();           events.notify()
//        if (condition()) { events.cancel(); break; }
//        if (!events.wait(key, deadline)) break;      // false: the deadline passed
//      }
//
// No wake-up is lost: `prepare` and `notify` are read-modify-writes of one word, so either the
// notifier sees the waiter, or the waiter's second look sees the condition. `notify` costs one
// atomic add while nobody waits, and one system call otherwise. Spurious returns are possible.
//
// Threads: any, any number of waiters. Time: `deadline` is absolute on the monotonic clock
// (SteadyClock); kNever waits without limit.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace asyncmesh {

class EventCount {
 public:
  class Key {
   private:
    friend class EventCount;
    explicit Key(uint32_t epoch) : epoch_(epoch) {}
    uint32_t epoch_;
  };

  EventCount() = default;
  EventCount(const EventCount&) = delete;
  EventCount& operator=(const EventCount&) = delete;

  Key prepare() noexcept;  // registers a waiter; exactly one `cancel` or `wait` must follow
  void cancel() noexcept;
  // True: notified since `prepare` (or woken spuriously). False: the deadline passed first.
  bool wait(Key key, Nanoseconds deadline) noexcept;
  void notify() noexcept;  // wakes every waiter

 private:
  static constexpr uint64_t kWaiter = 1;
  static constexpr uint64_t kEpoch = uint64_t{1} << 32;

  uint32_t epoch(std::memory_order order) const noexcept {
    return static_cast<uint32_t>(state_.load(order) >> 32);
  }

  std::atomic<uint64_t> state_{0};  // notifications << 32 | waiters
};

}  // namespace asyncmesh
