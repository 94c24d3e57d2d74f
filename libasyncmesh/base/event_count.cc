#include "base/event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <climits>
#include <ctime>

namespace asyncmesh {
namespace {

static_assert(std::endian::native == std::endian::little, "the epoch is the word's upper half");
static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));

// The half of the state that the kernel compares: only a notification changes it.
uint32_t* futex_word(std::atomic<uint64_t>* state) {
  return reinterpret_cast<uint32_t*>(state) + 1;
}

}  // namespace

EventCount::Key EventCount::prepare() noexcept {
  // Acquire: when this comes after a `notify`, what the notifier wrote before it is visible.
  return Key(static_cast<uint32_t>(state_.fetch_add(kWaiter, std::memory_order_acq_rel) >> 32));
}

void EventCount::cancel() noexcept { state_.fetch_sub(kWaiter, std::memory_order_relaxed); }

bool EventCount::wait(Key key, Nanoseconds deadline) noexcept {
  bool notified = true;
  // Pairs with the release half of `notify`.
  while (epoch(std::memory_order_acquire) == key.epoch_) {
    timespec until{};
    until.tv_sec = static_cast<time_t>(deadline / 1'000'000'000);
    until.tv_nsec = static_cast<long>(deadline % 1'000'000'000);
    // The bitset form takes an absolute time on the monotonic clock.
    const long rc = syscall(SYS_futex, futex_word(&state_), FUTEX_WAIT_BITSET_PRIVATE, key.epoch_,
                            deadline == kNever ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (rc == -1 && errno == ETIMEDOUT) {
      notified = epoch(std::memory_order_acquire) != key.epoch_;
      break;
    }
    if (rc == -1 && errno != EAGAIN && errno != EINTR) break;
  }
  state_.fetch_sub(kWaiter, std::memory_order_relaxed);
  return notified;
}

void EventCount::notify() noexcept {
  const uint64_t before = state_.fetch_add(kEpoch, std::memory_order_acq_rel);
  if (static_cast<uint32_t>(before) == 0) return;
  syscall(SYS_futex, futex_word(&state_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace asyncmesh
