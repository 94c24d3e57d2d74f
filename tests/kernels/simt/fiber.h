// A fiber: a function with a stack of its own, which the thread that made it enters and which hands
// control back. Known to AddressSanitizer and ThreadSanitizer, so that both see one stack at a
// time.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace simt {

class Fiber {
 public:
  // `work` is called by each resume() that finds it not running. It throws nothing.
  explicit Fiber(std::function<void(Fiber&)> work);
  // Not while `work` is suspended in the middle.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Enters the fiber; returns when `work` has returned or called suspend().
  void resume();
  // From inside `work`: back to who resumed.
  void suspend();

 private:
  static void trampoline(unsigned high, unsigned low);
  void loop();
  void enter();
  void leave(bool for_good);

  std::function<void(Fiber&)> work_;
  bool quit_ = false;
  void* mapping_ = nullptr;
  std::byte* stack_ = nullptr;
  ucontext_t inside_, outside_;
  // What AddressSanitizer and ThreadSanitizer hand out, in their builds.
  [[maybe_unused]] void* inside_fake_stack_ = nullptr;
  [[maybe_unused]] void* outside_fake_stack_ = nullptr;
  [[maybe_unused]] const void* outside_stack_ = nullptr;
  [[maybe_unused]] size_t outside_stack_size_ = 0;
  [[maybe_unused]] void* inside_thread_ = nullptr;
  [[maybe_unused]] void* outside_thread_ = nullptr;
};

}  // namespace simt
