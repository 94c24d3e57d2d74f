// CRC-32C (Castagnoli), the checksum of frames and control messages.
//
// `seed` is 0 or the result for the bytes before, so that crc32c(crc32c(0, a), b) is the checksum
// of a followed by b. The CPU's instruction is used where it exists (SSE4.2, found at run time;
// arm64 where compiled for it), three streams at a time on large buffers; tables otherwise. All
// paths give the same result. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asyncmesh {

uint32_t crc32c(uint32_t seed, const void* data, size_t bytes) noexcept;

// Of the 8 bytes of `first` (as they lie in memory) and the kCrcTailBytes at `tail`, without a
// loop: the header of a frame.
inline constexpr size_t kCrcTailBytes = 48;
uint32_t crc32c_header(uint64_t first, const void* tail) noexcept;

// The table path whatever the CPU can do: what the others are tested against.
uint32_t crc32c_portable(uint32_t seed, const void* data, size_t bytes) noexcept;

}  // namespace asyncmesh
