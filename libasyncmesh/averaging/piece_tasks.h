// Work on the pieces of a round, spread over threads: a piece is too small to be cut again.
#pragma once

#include <cstdint>

#include "kernels/workers.h"

namespace asyncmesh {

// Tasks that `for_each_piece` makes: 1 where it runs on the calling thread alone.
inline uint32_t piece_tasks(const kernels::Workers* workers, uint32_t pieces) noexcept {
  const bool enough = workers != nullptr && pieces >= workers->size();
  return enough ? workers->size() : 1;
}

// body(piece, task) for each piece; those of a task in order, tasks at the same time.
template <typename Body>
void for_each_piece(kernels::Workers* workers, uint32_t pieces, const Body& body) noexcept {
  struct Context {
    const Body& body;
    uint64_t pieces, tasks;
  } context{body, pieces, piece_tasks(workers, pieces)};
  const auto task = [](void* opaque, uint32_t index) {
    const auto& c = *static_cast<const Context*>(opaque);
    const auto end = static_cast<uint32_t>(c.pieces * (index + 1) / c.tasks);
    for (auto piece = static_cast<uint32_t>(c.pieces * index / c.tasks); piece < end; ++piece) {
      c.body(piece, index);
    }
  };
  if (context.tasks == 1) return task(&context, 0);
  workers->run(task, &context);
}

}  // namespace asyncmesh
