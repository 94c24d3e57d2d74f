// When an output goes past the caches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asyncmesh::kernels {

// A line that is written whole past the caches need not be read first: a third of the traffic of an
// output that is as large as its input. Below some tens of MiB the caches of a server hold it, and
// whoever reads it next would wait. Streaming stores want alignment; kernels ask for a line.
inline bool worth_streaming(const void* out, uint64_t bytes) noexcept {
  constexpr uint64_t kLeast = uint64_t{32} << 20;
  constexpr uint64_t kLine = 64;
  return bytes >= kLeast && reinterpret_cast<uintptr_t>(out) % kLine == 0;
}

}  // namespace asyncmesh::kernels
