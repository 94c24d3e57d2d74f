// How a CPU kernel is spread over threads.
#pragma once

#include <cstdint>

namespace asyncmesh::kernels {

class Workers {
 public:
  virtual ~Workers() = default;
  // Tasks that run at the same time, the caller's included; at least 1.
  virtual uint32_t size() const noexcept = 0;
  // Calls task(context, i) once for each i in [0, size()), the caller's thread among those that do,
  // and returns when all have returned. Neither allocates nor throws. Not reentrant; one caller at
  // a time.
  virtual void run(void (*task)(void* context, uint32_t index), void* context) noexcept = 0;
};

}  // namespace asyncmesh::kernels
