// How a CPU kernel is spread over threads.
#pragma once

#include <cstdint>
#include <memory>

namespace asyncmesh::kernels {

class Workers {
 public:
  virtual ~Workers() = default;
  // Tasks that run at the same time, the caller's included; at least 1.
  virtual uint32_t size() const noexcept = 0;
  // Calls task(context, i) once for each i in [0, size()), the caller's thread among those that do,
  // and returns when all have returned. Some may run one after another on one thread: tasks never
  // wait for each other. Neither allocates nor throws.
  virtual void run(void (*task)(void* context, uint32_t index), void* context) noexcept = 0;
};

// A ThreadTeam (cpu/thread_team.h) of `size` threads, the caller's included. Null: the system gives
// no more of them.
std::unique_ptr<Workers> make_thread_team(uint32_t size);

}  // namespace asyncmesh::kernels
