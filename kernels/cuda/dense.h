// Runs of elements whose arrays are all flat: four at a time where all are aligned for that, with
// the few before and after by themselves; one at a time where they are aligned differently.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/geometry.h"
#include "kernels/wire.h"

namespace asyncmesh::kernels {

class DenseRun {
 public:
  explicit DenseRun(uint64_t count) : count_(count) {}

  // Every array that is read or written at the same index; null is none. Scaled values are aligned
  // from their first one on.
  void add(const void* array, Encoding storage = Encoding::kFloat32) {
    if (array == nullptr) return;
    const auto address = reinterpret_cast<uintptr_t>(array);
    const auto of = static_cast<uint32_t>(scaled(storage)                 ? 0
                                          : storage == Encoding::kFloat32 ? address / 4 % 4
                                                                          : address / 2 % 4);
    const uint32_t head = (4 - of) % 4;
    apart_ = apart_ || (known_ && head != head_);
    known_ = true;
    head_ = head;
  }

  uint64_t count() const { return count_; }
  uint64_t head() const { return apart_ || head_ > count_ ? count_ : head_; }
  uint64_t quads() const { return (count_ - head()) / 4; }
  uint32_t groups() const { return groups_for(quads() + (count_ - 4 * quads()), kThreads); }

 private:
  uint64_t count_;
  uint32_t head_ = 0;
  bool known_ = false, apart_ = false;
};

namespace device {

struct Dense {
  uint64_t head, quads, rest;  // rest: the elements that are in no quad, the head included
};
inline Dense dense(const DenseRun& run) {
  return {run.head(), run.quads(), run.count() - 4 * run.quads()};
}

// body.run<4>(first) or body.run<1>(i) for every element.
template <typename Body>
__device__ void for_elements(const Dense& run, Body& body) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (uint64_t i = thread; i < run.quads; i += stride) body.template run<4>(run.head + 4 * i);
  for (uint64_t i = thread; i < run.rest; i += stride) {
    body.template run<1>(i < run.head ? i : i + 4 * run.quads);
  }
}

}  // namespace device
}  // namespace asyncmesh::kernels
