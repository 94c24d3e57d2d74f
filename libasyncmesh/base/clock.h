// Time as the library sees it: nanoseconds of a monotonic clock, injected, so that every timer can
// be tested by hand.
#pragma once

#include <chrono>
#include <cstdint>

namespace asyncmesh {

using Nanoseconds = int64_t;  // a duration or a point on the monotonic clock
inline constexpr Nanoseconds kNever = INT64_MAX;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanoseconds now() const = 0;  // any thread
};

class SteadyClock final : public Clock {
 public:
  Nanoseconds now() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Moves only when told to. Not thread-safe: for tests driven by hand.
class FakeClock final : public Clock {
 public:
  Nanoseconds now() const override { return now_; }
  void advance(Nanoseconds step) { now_ += step; }

 private:
  Nanoseconds now_ = 1;
};

// The absolute deadline of a relative timeout; a negative timeout means never.
inline Nanoseconds deadline_after(const Clock& clock, Nanoseconds timeout) {
  if (timeout < 0) return kNever;
  const Nanoseconds now = clock.now();
  return timeout > kNever - now ? kNever : now + timeout;
}

}  // namespace asyncmesh
