#include "tests/kernels/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#if defined(__has_feature)
#define SIMT_HAS(feature) __has_feature(feature)
#else
#define SIMT_HAS(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || SIMT_HAS(address_sanitizer)
#define SIMT_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__) || SIMT_HAS(thread_sanitizer)
#define SIMT_TSAN 1
#include <sanitizer/tsan_interface.h>
#endif

namespace simt {
namespace {

constexpr size_t kGuard = 64 << 10;  // at least a page, whatever its size
constexpr size_t kStack = 256 << 10;

[[noreturn]] void die(const char* what) {
  perror(what);
  abort();
}

}  // namespace

Fiber::Fiber(std::function<void(Fiber&)> work) : work_(std::move(work)) {
  mapping_ = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) die("simt: stack of a fiber");
  if (mprotect(mapping_, kGuard, PROT_NONE) != 0) die("simt: guard of a fiber");
  stack_ = static_cast<std::byte*>(mapping_) + kGuard;
  if (getcontext(&inside_) != 0) die("simt: getcontext");
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStack;
  inside_.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::trampoline), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
#ifdef SIMT_TSAN
  inside_thread_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  quit_ = true;
  enter();
#ifdef SIMT_TSAN
  __tsan_destroy_fiber(inside_thread_);
#endif
  munmap(mapping_, kGuard + kStack);
}

void Fiber::resume() { enter(); }
void Fiber::suspend() { leave(false); }

void Fiber::trampoline(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low)->loop();
}

void Fiber::loop() {
#ifdef SIMT_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &outside_stack_, &outside_stack_size_);
#endif
  while (!quit_) {
    work_(*this);
    leave(false);
  }
  leave(true);
}

void Fiber::enter() {
#ifdef SIMT_ASAN
  __sanitizer_start_switch_fiber(&outside_fake_stack_, stack_, kStack);
#endif
#ifdef SIMT_TSAN
  outside_thread_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(inside_thread_, 0);
#endif
  if (swapcontext(&outside_, &inside_) != 0) die("simt: swapcontext");
#ifdef SIMT_ASAN
  __sanitizer_finish_switch_fiber(outside_fake_stack_, nullptr, nullptr);
#endif
}

// For good: AddressSanitizer drops what it keeps about the fiber's stack.
void Fiber::leave([[maybe_unused]] bool for_good) {
#ifdef SIMT_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &inside_fake_stack_, outside_stack_,
                                 outside_stack_size_);
#endif
#ifdef SIMT_TSAN
  __tsan_switch_to_fiber(outside_thread_, 0);
#endif
  if (swapcontext(&inside_, &outside_) != 0) die("simt: swapcontext");
#ifdef SIMT_ASAN
  __sanitizer_finish_switch_fiber(inside_fake_stack_, &outside_stack_, &outside_stack_size_);
#endif
}

}  // namespace simt
