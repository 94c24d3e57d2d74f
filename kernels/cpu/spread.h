// Cuts work into one contiguous range per worker.
#pragma once

#include <cstdint>

#include "kernels/workers.h"

namespace asyncmesh::kernels {

// Calls body(begin, end) for ranges that together are [0, units): one for each worker, or a single
// one on the calling thread where there are no workers or fewer than `least` units for each of two.
template <class Body>
void spread(Workers* workers, uint64_t units, uint64_t least, const Body& body) {
  const uint64_t parts = workers == nullptr ? 1 : workers->size();
  if (parts == 1 || units < 2 * least) {
    if (units != 0) body(uint64_t{0}, units);
    return;
  }
  struct Context {
    const Body* body;
    uint64_t units, parts;
  } context = {&body, units, parts};
  workers->run(
      [](void* opaque, uint32_t index) {
        const auto& c = *static_cast<const Context*>(opaque);
        const uint64_t each = c.units / c.parts, rest = c.units % c.parts;
        const uint64_t begin = each * index + (index < rest ? index : rest);
        const uint64_t end = begin + each + (index < rest ? 1 : 0);
        if (begin != end) (*c.body)(begin, end);
      },
      &context);
}

// The same for elements of an array: every range but the last is a multiple of 1,024 elements, and
// below 32 of those waking a thread costs more than it saves.
template <class Body>
void spread_elements(Workers* workers, uint64_t elements, const Body& body) {
  constexpr uint64_t kRun = 1024;
  constexpr uint64_t kLeast = 32;
  spread(workers, (elements + kRun - 1) / kRun, kLeast, [&](uint64_t begin, uint64_t end) {
    body(begin * kRun, end * kRun < elements ? end * kRun : elements);
  });
}

}  // namespace asyncmesh::kernels
