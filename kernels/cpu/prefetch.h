// Asking for memory ahead of time.
#pragma once

#include <cstddef>
#include <cstdint>

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

// Asks for the cache lines of `bytes` bytes that start anywhere: without a branch where the number
// is a constant.
[[gnu::always_inline]] inline void prefetch_all(const std::byte* data, size_t bytes) noexcept {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < bytes; at += kLine) prefetch_line(data + at);
  prefetch_line(data + bytes - 1);
}

// Asks for memory that is read or written in order, some kilobytes before its turn: among many
// random accesses, hardware prefetchers lose sight of it. `data` + `bytes` may lie in front of the
// end; what comes behind it is asked for in vain.
[[gnu::always_inline]] inline void prefetch_behind(const void* data, size_t bytes) noexcept {
  constexpr size_t kAhead = 4096;
  prefetch_all(static_cast<const std::byte*>(data) + kAhead, bytes);
}

}  // namespace asyncmesh::kernels
