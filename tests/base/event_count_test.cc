#include "base/event_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace asyncmesh {
namespace {

constexpr Nanoseconds kLong = 30'000'000'000;  // only a hang takes that long

TEST(EventCount, WaitReturnsAtOnceWhenNotifiedAfterPrepare) {
  EventCount events;
  const EventCount::Key key = events.prepare();
  events.notify();
  EXPECT_TRUE(events.wait(key, kNever));
}

TEST(EventCount, WaitEndsAtItsDeadline) {
  EventCount events;
  const SteadyClock clock;
  const Nanoseconds deadline = deadline_after(clock, 2'000'000);
  EXPECT_FALSE(events.wait(events.prepare(), deadline));
  EXPECT_GE(clock.now(), deadline);
}

TEST(EventCount, WaitWithAPastDeadlineDoesNotBlock) {
  EventCount events;
  EXPECT_FALSE(events.wait(events.prepare(), 0));
}

TEST(EventCount, ANotificationBeforePrepareWakesNobody) {
  EventCount events;
  const SteadyClock clock;
  events.notify();
  EXPECT_FALSE(events.wait(events.prepare(), deadline_after(clock, 1'000'000)));
}

TEST(EventCount, CancelLeavesNoWaiterBehind) {
  EventCount events;
  (void)events.prepare();
  events.cancel();
  const EventCount::Key key = events.prepare();
  events.notify();
  EXPECT_TRUE(events.wait(key, kNever));
}

// Two threads hand a counter back and forth; a lost wake-up would show as a timeout.
TEST(EventCount, LosesNoWakeUpBetweenTwoThreads) {
  constexpr int kRounds = 20'000;
  EventCount events;
  std::atomic<int> turn{0};
  std::atomic<bool> timed_out{false};
  const SteadyClock clock;
  const auto play = [&](int parity) {
    for (int round = 0; round < kRounds && !timed_out;) {
      if (turn.load(std::memory_order_acquire) % 2 == parity) {
        turn.fetch_add(1, std::memory_order_release);
        events.notify();
        ++round;
        continue;
      }
      const EventCount::Key key = events.prepare();
      if (turn.load(std::memory_order_acquire) % 2 == parity) {
        events.cancel();
      } else if (!events.wait(key, deadline_after(clock, kLong))) {
        timed_out = true;
        events.notify();
      }
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_FALSE(timed_out);
  EXPECT_EQ(turn.load(), 2 * kRounds);
}

TEST(EventCount, WakesAllWaiters) {
  EventCount events;
  std::atomic<bool> go{false};
  std::atomic<int> woken{0};
  const SteadyClock clock;
  const auto wait = [&] {
    while (!go.load(std::memory_order_acquire)) {
      const EventCount::Key key = events.prepare();
      if (go.load(std::memory_order_acquire)) {
        events.cancel();
      } else if (!events.wait(key, deadline_after(clock, kLong))) {
        return;
      }
    }
    ++woken;
  };
  std::thread first(wait);
  std::thread second(wait);
  go.store(true, std::memory_order_release);
  events.notify();
  first.join();
  second.join();
  EXPECT_EQ(woken.load(), 2);
}

}  // namespace
}  // namespace asyncmesh
