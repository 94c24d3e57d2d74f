#include "tests/kernels/simt/block.h"

#include <utility>

namespace simt {

std::string Block::run(const std::function<void()>& thread, bool descending) {
  const uint32_t count = blockDim.x * blockDim.y * blockDim.z;
  body_ = &thread;
  threads_.assign(count, {});
  order_.resize(count);
  for (uint32_t i = 0; i < count; ++i) order_[i] = descending ? count - 1 - i : i;
  started_ = 0;
  failure_.clear();
  while (started_ < count && failure_.empty()) idle_fiber()->resume();
  while (failure_.empty() && complete_any()) resume_ready();
  if (failure_.empty()) failure_ = stuck();
  if (!failure_.empty()) abandon();
  return std::exchange(failure_, {});
}

// On a fiber: one thread after the other, for as long as none waits.
void Block::start_threads(Fiber& on) {
  while (started_ < order_.size() && failure_.empty()) {
    const uint32_t number = order_[started_++];
    threads_[number].fiber = &on;
    run_thread(number);
  }
  idle_.push_back(&on);
}

void Block::run_thread(uint32_t number) {
  current_ = number;
  threadIdx = {number % blockDim.x, number / blockDim.x % blockDim.y,
               number / blockDim.x / blockDim.y};
  threads_[number].state = Thread::State::kRunning;
  try {
    (*body_)();
  } catch (const Abandoned&) {
  }
  threads_[number].state = Thread::State::kDone;
}

Fiber* Block::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>([this](Fiber& self) { start_threads(self); }));
    idle_.push_back(fibers_.back().get());
  }
  Fiber* const fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

void Block::resume(uint32_t number) {
  current_ = number;
  threadIdx = {number % blockDim.x, number / blockDim.x % blockDim.y,
               number / blockDim.x / blockDim.y};
  threads_[number].state = Thread::State::kRunning;
  threads_[number].fiber->resume();
}

void Block::resume_ready() {
  ready_.clear();
  for (const uint32_t number : order_) {
    if (threads_[number].state == Thread::State::kRunning) ready_.push_back(number);
  }
  for (const uint32_t number : ready_) {
    if (failure_.empty()) resume(number);
  }
}

// Whoever waits, or was about to go on, throws out of the kernel.
void Block::abandon() {
  for (uint32_t number = 0; number < threads_.size(); ++number) {
    const Thread::State state = threads_[number].state;
    if (state == Thread::State::kWaiting || state == Thread::State::kRunning) resume(number);
  }
}

uint64_t Block::meet(const Meeting& meeting) {
  const uint32_t self = current_;
  if (meeting.operation != Operation::kBarrier && (meeting.mask >> (self % kWarp) & 1) == 0) {
    misuse("calls " + meeting_name(meeting) + " with a mask that does not name its own lane");
  }
  threads_[self].meeting = meeting;
  threads_[self].state = Thread::State::kWaiting;
  threads_[self].fiber->suspend();
  if (!failure_.empty()) throw Abandoned{};
  return threads_[self].result;
}

void Block::misuse(const std::string& what) {
  if (failure_.empty()) failure_ = thread_name(current_) + " " + what;
  throw Abandoned{};
}

}  // namespace simt
