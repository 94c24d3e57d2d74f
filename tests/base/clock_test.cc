#include "base/clock.h"

#include <gtest/gtest.h>

namespace asyncmesh {
namespace {

TEST(Clock, NegativeTimeoutIsNever) { EXPECT_EQ(deadline_after(FakeClock(), -1), kNever); }

TEST(Clock, ADeadlineBeyondTimeIsNever) { EXPECT_EQ(deadline_after(FakeClock(), kNever), kNever); }

TEST(Clock, ADeadlineIsNowPlusTheTimeout) {
  FakeClock clock;
  clock.advance(9);
  EXPECT_EQ(deadline_after(clock, 5), clock.now() + 5);
}

TEST(Clock, SteadyClockDoesNotGoBack) {
  const SteadyClock clock;
  const Nanoseconds first = clock.now();
  EXPECT_GE(clock.now(), first);
}

}  // namespace
}  // namespace asyncmesh
