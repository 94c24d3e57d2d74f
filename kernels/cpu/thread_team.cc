#include "kernels/cpu/thread_team.h"

#include <pthread.h>
#include <signal.h>

#include <exception>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace asyncmesh::kernels {
namespace {

void relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns the value when it is another than `old`.
uint32_t await_change(const std::atomic<uint32_t>& word, uint32_t old) noexcept {
  constexpr int kLooks = 4096;
  for (int look = 0; look < kLooks; ++look) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    relax();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
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

ThreadTeam::ThreadTeam(uint32_t size) noexcept {
  const SignalsBlocked inherited;
  try {
    threads_.reserve(size);
    for (uint32_t index = 1; index < size; ++index) {
      threads_.emplace_back([this, index] { work(index); });
      pthread_setname_np(threads_.back().native_handle(), "asyncmesh-k");
    }
  } catch (const std::exception&) {  // as many as there are
  }
}

ThreadTeam::~ThreadTeam() {
  task_ = nullptr;
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::run(void (*task)(void* context, uint32_t index), void* context) noexcept {
  if (!threads_.empty()) {
    task_ = task;
    context_ = context;
    busy_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
    run_.fetch_add(1, std::memory_order_release);
    run_.notify_all();
  }
  task(context, 0);
  for (uint32_t busy = busy_.load(std::memory_order_acquire); busy != 0;) {
    busy = await_change(busy_, busy);
  }
}

void ThreadTeam::work(uint32_t index) noexcept {
  for (uint32_t seen = 0;;) {
    seen = await_change(run_, seen);
    if (task_ == nullptr) return;
    task_(context_, index);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace asyncmesh::kernels
