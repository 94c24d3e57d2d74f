// Asking for memory ahead of time.
#pragma once

#include <cstddef>

namespace asyncmesh::kernels {

// In assembly, because g++ (12 and others) takes a function that does nothing but
// __builtin_prefetch for one without effect, and drops the calls.
[[gnu::always_inline]] inline void prefetch_line(const std::byte* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*at));
#elif defined(__aarch64__)
  asm volatile("prfm pldl1keep, %0" : : "Q"(*at));
#else
  __builtin_prefetch(at);
#endif
}

// Asks for the cache lines of `bytes` > 0 bytes; of a long run for the first ones, the hardware
// follows.
[[gnu::always_inline]] inline void prefetch_run(const std::byte* data, size_t bytes) noexcept {
  constexpr size_t kLine = 64, kMost = 1024;
  const std::byte* const end = data + (bytes < kMost ? bytes : kMost);
  for (const std::byte* at = data; at < end; at += kLine) prefetch_line(at);
  prefetch_line(end - 1);
}

}  // namespace asyncmesh::kernels
