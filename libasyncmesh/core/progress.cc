#include "core/progress.h"

#include <algorithm>
#include <ctime>

namespace asyncmesh::core {
namespace {

constexpr Nanoseconds kLongestSleep = 10'000'000;  // a backstop: nothing should depend on it
constexpr uint32_t kOperationsPerRound = 256;

timespec to_timespec(Nanoseconds duration) {
  return {static_cast<time_t>(duration / 1'000'000'000),
          static_cast<long>(duration % 1'000'000'000)};
}

}  // namespace

bool Activity::wait(uint64_t seen, Nanoseconds deadline) noexcept {
  while (count() == seen) {
    const EventCount::Key key = sleepers_.prepare();
    if (count() != seen) {
      sleepers_.cancel();
      break;
    }
    if (!sleepers_.wait(key, deadline)) return count() != seen;
  }
  return true;
}

Progress::Progress(const Clock& clock, OperationRing& operations, Activity& activity)
    : clock_(clock), operations_(operations), activity_(activity) {
  fds_.reserve(8);
}

uint32_t Progress::operations_st() {
  uint32_t count = 0;
  Operation operation;
  while (count < kOperationsPerRound && operations_.pop_st(&operation)) {
    ++count;
    if (operation.port != nullptr) {
      operation.port->drain_st();
    } else {
      operation.command->run_st();
      operation.command->finish_st();
    }
  }
  return count;
}

void Progress::drain_operations_st() {
  while (operations_st() != 0) {
  }
}

uint32_t Progress::do_work_st() {
  uint32_t events = operations_st();
  if (participant_ != nullptr) events += participant_->progress_st(clock_.now());
  if (events != 0) activity_.announce();
  return events;
}

uint32_t Progress::step_st(Nanoseconds deadline) {
  const uint32_t events = do_work_st();
  if (events != 0) {
    idle_since_ = kNever;
    return events;
  }
  if (!spin_st(deadline)) sleep_st(deadline);
  return 0;
}

// True: go on without sleeping.
bool Progress::spin_st(Nanoseconds deadline) {
  const Nanoseconds budget = participant_ == nullptr ? 0 : participant_->spin_st();
  if (budget == 0) return false;
  const Nanoseconds now = clock_.now();
  if (idle_since_ == kNever) idle_since_ = now;
  return now < deadline && now - idle_since_ < budget;
}

void Progress::sleep_st(Nanoseconds deadline) {
  const Nanoseconds now = clock_.now();
  if (deadline <= now) return;
  if (participant_ != nullptr && !participant_->arm_st(now)) return;
  fds_.clear();
  fds_.push_back({operations_.bell().fd(), POLLIN, 0});
  Nanoseconds until = deadline;
  if (participant_ != nullptr) {
    participant_->add_fds_st(fds_);
    until = std::min(until, participant_->next_deadline_st());
  }
  if (until <= now) return;
  operations_.bell().prepare_sleep();
  if (!operations_.empty_st()) {
    operations_.bell().cancel_sleep();
    return;
  }
  const timespec duration =
      to_timespec(until == kNever ? kLongestSleep : std::min(until - now, kLongestSleep));
  // Interrupted or failed: the next round looks at everything anyway.
  const int ready = ppoll(fds_.data(), fds_.size(), &duration, nullptr);
  operations_.bell().wake(ready > 0 && fds_.front().revents != 0);
  if (participant_ != nullptr) participant_->woken_st(clock_.now(), std::span(fds_).subspan(1));
}

}  // namespace asyncmesh::core
