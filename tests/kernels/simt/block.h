// The threads of one block: how they run, wait and go on. Contract in executor.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/simt/executor.h"
#include "tests/kernels/simt/fiber.h"

namespace simt {

inline constexpr uint32_t kWarp = 32;

struct Thread {
  enum class State : uint8_t { kNew, kRunning, kWaiting, kDone };
  State state = State::kNew;
  Fiber* fiber = nullptr;
  Meeting meeting = {};
  uint64_t result = 0;
};

class Block {
 public:
  // Empty: every thread has ended.
  std::string run(const std::function<void()>& thread, bool descending);

  uint64_t meet(const Meeting& meeting);
  uint32_t lane() const { return current_ % kWarp; }
  [[noreturn]] void misuse(const std::string& what);

 private:
  struct Abandoned {};

  void start_threads(Fiber& on);
  void run_thread(uint32_t number);
  Fiber* idle_fiber();
  void resume(uint32_t number);
  void resume_ready();
  void abandon();

  bool complete_any();
  bool complete_barrier();
  bool complete_warp(uint32_t number);
  bool joins(uint32_t number, const Meeting& meeting) const;
  void shuffle(uint32_t first, uint32_t mask);
  std::string stuck() const;
  std::string absent(uint32_t number) const;

  const std::function<void()>* body_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> ready_;
  size_t started_ = 0;
  uint32_t current_ = 0;
  std::string failure_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

// "thread (1, 0, 0)" and "__syncthreads at file:12".
std::string thread_name(uint32_t number);
std::string meeting_name(const Meeting& meeting);

}  // namespace simt
