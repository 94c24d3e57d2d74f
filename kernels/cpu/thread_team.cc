#include "kernels/cpu/thread_team.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace asyncmesh::kernels {
namespace {

constexpr int kTaskBits = 16;
constexpr uint64_t kTaskMask = (uint64_t{1} << kTaskBits) - 1;
constexpr uint32_t kWoken = 2;  // threads that each thread wakes
// As long as waking a sleeper may take; between kernels of one call, and the optimiser's step and
// the averager's call after it, less time passes.
constexpr std::chrono::microseconds kSpin{50};

void relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Signals are the program's: they go to its own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::unique_ptr<Workers> make_thread_team(uint32_t size) {
  auto team = std::make_unique<ThreadTeam>(size);
  if (team->size() != std::max(size, 1U)) return nullptr;
  return team;
}

ThreadTeam::ThreadTeam(uint32_t size) noexcept
    : process_(getpid()), spins_(size <= std::thread::hardware_concurrency()) {
  const SignalsBlocked inherited;
  try {
    threads_.reserve(size);
  } catch (const std::exception&) {
    return;
  }
  for (pthread_t thread; threads_.size() + 1 < size; threads_.push_back(thread)) {
    if (pthread_create(&thread, nullptr, &ThreadTeam::enter, this) != 0) return;
    pthread_setname_np(thread, "asyncmesh-k");
  }
}

ThreadTeam::~ThreadTeam() {
  if (getpid() != process_) return;
  stopped_.store(true, std::memory_order_relaxed);
  announced_.fetch_add(1, std::memory_order_release);  // partner: await_change in work
  announced_.notify_all();
  for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
}

void* ThreadTeam::enter(void* team) noexcept {
  static_cast<ThreadTeam*>(team)->work();
  return nullptr;
}

// Returns the value when it is another than `old`.
uint32_t ThreadTeam::await_change(const std::atomic<uint32_t>& word, uint32_t old) const noexcept {
  constexpr int kLooks = 32;  // between two looks at the clock
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (spins_) {
    for (int look = 0; look < kLooks; ++look) {
      const uint32_t now = word.load(std::memory_order_acquire);
      if (now != old) return now;
      relax();
    }
    if (std::chrono::steady_clock::now() >= until) break;
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

// A thread may come at any time, also when the run that it woke for is over: a claim is of the run
// that is current then, which cannot end before the claimed task has.
bool ThreadTeam::claim(uint32_t* index_out) noexcept {
  uint64_t claims = claims_.load(std::memory_order_acquire);  // partner: the store in run
  while ((claims & kTaskMask) != 0) {
    if (claims_.compare_exchange_weak(claims, claims - 1, std::memory_order_acquire)) {
      *index_out = static_cast<uint32_t>(claims & kTaskMask);
      return true;
    }
  }
  return false;
}

void ThreadTeam::wake() noexcept {
  const uint32_t most = std::min<uint32_t>(kWoken, static_cast<uint32_t>(threads_.size()));
  for (uint32_t i = 0; i < most; ++i) announced_.notify_one();
}

void ThreadTeam::finish(uint32_t tasks) noexcept {
  // The last one's partner is the caller's wait in run; the others' effects come along.
  if (unfinished_.fetch_sub(tasks, std::memory_order_acq_rel) == tasks) unfinished_.notify_one();
}

void ThreadTeam::run(void (*task)(void* context, uint32_t index), void* context) noexcept {
  const uint32_t size = this->size();
  if (size == 1 || taken_.exchange(true, std::memory_order_acquire)) {
    for (uint32_t index = 0; index < size; ++index) task(context, index);
    return;
  }
  task_ = task;
  context_ = context;
  std::fegetenv(&environment_);
  unfinished_.store(size, std::memory_order_relaxed);
  claims_.store(++runs_ << kTaskBits | (size - 1), std::memory_order_release);  // partner: claim
  announced_.fetch_add(1, std::memory_order_release);  // partner: await_change in work
  wake();
  task(context, 0);
  uint32_t tasks = 1;
  for (uint32_t index = 0; claim(&index); ++tasks) task(context, index);
  finish(tasks);
  for (uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;) {
    left = await_change(unfinished_, left);
  }
  taken_.store(false, std::memory_order_release);  // partner: the exchange above
}

void ThreadTeam::work() noexcept {
  for (uint32_t seen = 0;;) {
    seen = await_change(announced_, seen);
    if (stopped_.load(std::memory_order_relaxed)) return;
    uint32_t tasks = 0;
    for (uint32_t index = 0; claim(&index); ++tasks) {
      if (tasks == 0) {
        if (index > 1) wake();
        std::fesetenv(&environment_);
      }
      task_(context_, index);
    }
    if (tasks != 0) finish(tasks);
  }
}

}  // namespace asyncmesh::kernels
