// Workers: threads that are created once and wait for kernels.
//
// Between two runs a thread looks for the next one for some tens of microseconds and then sleeps,
// so that kernels that follow one another do not pay for waking it. Threads: as Workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/workers.h"

namespace asyncmesh::kernels {

class ThreadTeam final : public Workers {
 public:
  // `size` tasks at a time, on the caller's thread and size - 1 of its own; where the system gives
  // no more threads, as many as it gave.
  explicit ThreadTeam(uint32_t size) noexcept;
  ~ThreadTeam() override;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  uint32_t size() const noexcept override { return static_cast<uint32_t>(threads_.size()) + 1; }
  void run(void (*task)(void* context, uint32_t index), void* context) noexcept override;

 private:
  void work(uint32_t index) noexcept;

  std::vector<std::thread> threads_;
  void (*task_)(void* context, uint32_t index) = nullptr;  // null: the threads end
  void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> run_{0};   // number of the run; what the threads watch
  alignas(64) std::atomic<uint32_t> busy_{0};  // threads that have not finished it
};

}  // namespace asyncmesh::kernels
