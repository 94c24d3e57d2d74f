// The clock of a conformance test: the wall clock, or one that moves only while nothing else does.
#pragma once

#include <sched.h>

#include <algorithm>

#include "base/clock.h"

namespace asyncmesh::conformance {

inline constexpr Nanoseconds kMicrosecond = 1'000;
inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1'000'000'000;

class TestClock final : public Clock {
 public:
  explicit TestClock(bool real) : real_(real) {}

  Nanoseconds now() const override { return real_ ? steady_.now() : fake_.now(); }

  // Nothing to do before `next`: lets another process run, or lets the time pass (at most 100 us of
  // it).
  void idle(Nanoseconds next) {
    if (real_) {
      ::sched_yield();
      return;
    }
    const Nanoseconds until = std::min(next, fake_.now() + 100 * kMicrosecond);
    fake_.advance(std::max<Nanoseconds>(1, until - fake_.now()));
  }

 private:
  bool real_;
  SteadyClock steady_;
  FakeClock fake_;
};

// A limit of a test in wall time, whatever clock the test runs on.
class WallDeadline {
 public:
  explicit WallDeadline(Nanoseconds timeout) : end_(deadline_after(clock_, timeout)) {}
  bool passed() const { return clock_.now() >= end_; }

 private:
  SteadyClock clock_;
  Nanoseconds end_;
};

}  // namespace asyncmesh::conformance
