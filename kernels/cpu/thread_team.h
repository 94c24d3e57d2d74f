// Workers: threads that are created once and wait for kernels.
//
// The caller does task 0, all others are claimed, by the caller too: who comes late finds less or
// nothing to do. So a run costs the caller little more than all tasks on its own thread and the
// waking of two, however long those take to wake. Who is woken and finds work wakes the next two.
//
// After a run a thread looks for the next one for some tens of microseconds, so that kernels that
// follow one another do not pay for waking, and then sleeps. Where threads outnumber cores it
// sleeps at once.
//
// Callers: any number of threads, at any time. One at a time has the team, the others meanwhile
// work alone, as does a task that calls `run` itself; nobody waits for another caller. Tasks run
// with the floating-point environment of their caller, on whatever thread.
//
// Fork: in a child the threads do not exist; it works alone, and the destructor forgets them.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cfenv>
#include <cstdint>
#include <vector>

#include "kernels/workers.h"

namespace asyncmesh::kernels {

class ThreadTeam final : public Workers {
 public:
  // `size` tasks at a time, on the caller's thread and size - 1 of its own; where the system gives
  // no more threads, as many as it gave. size < 2^16.
  explicit ThreadTeam(uint32_t size) noexcept;
  ~ThreadTeam() override;  // nobody is in `run`
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  uint32_t size() const noexcept override { return static_cast<uint32_t>(threads_.size()) + 1; }
  void run(void (*task)(void* context, uint32_t index), void* context) noexcept override;

 private:
  bool claim(uint32_t* index_out) noexcept;
  void wake() noexcept;
  static void* enter(void* team) noexcept;
  void work() noexcept;
  void finish(uint32_t tasks) noexcept;
  uint32_t await_change(const std::atomic<uint32_t>& word, uint32_t old) const noexcept;

  std::vector<pthread_t> threads_;  // no owners: in a forked child there is nothing to own
  pid_t process_;
  bool spins_;

  // Of the run: written while all of its tasks are unclaimed, read by those who have claimed one.
  void (*task_)(void* context, uint32_t index) = nullptr;
  void* context_ = nullptr;
  std::fenv_t environment_{};
  uint64_t runs_ = 0;

  alignas(64) std::atomic<uint64_t> claims_{0};     // number of the run, tasks left to claim
  alignas(64) std::atomic<uint32_t> announced_{0};  // runs, modulo 2^32: what the threads watch
  std::atomic<bool> stopped_{false};
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // tasks of the run
  alignas(64) std::atomic<bool> taken_{false};       // somebody is in `run`
};

}  // namespace asyncmesh::kernels
