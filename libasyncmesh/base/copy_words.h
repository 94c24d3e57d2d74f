// Copies a small value that was written a moment ago, by the same thread.
//
// A wide load over several younger, narrower stores waits until these have left the store buffer,
// some 15 cycles; a load that one store covers is forwarded. The compiler copies structures with
// the widest loads there are. This copies words of 8 bytes, one by one, where the type consists of
// them; fields that are written as halves of such a word still cost the wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace asyncmesh {

// Both aligned to 8 bytes; `bytes` a multiple of 8.
[[gnu::always_inline]] inline void copy_words(void* to, const void* from, size_t bytes) noexcept {
  auto* words = static_cast<uint64_t*>(const_cast<void*>(from));
#pragma GCC unroll 16
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
    // Relaxed atomics are not joined into wider loads.
    const uint64_t word = std::atomic_ref(words[i]).load(std::memory_order_relaxed);
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof(word), &word, sizeof(word));
  }
}

template <typename T>
void copy_words(T& to, const T& from) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if constexpr (alignof(T) == alignof(uint64_t) && sizeof(T) % sizeof(uint64_t) == 0) {
    copy_words(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(T));
  } else {
    to = from;
  }
}

}  // namespace asyncmesh
