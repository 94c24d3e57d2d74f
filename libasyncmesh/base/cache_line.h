// The distance that keeps two writers off one cache line (64 B lines, prefetched in pairs on
// x86-64).
#pragma once

#include <cstddef>

namespace asyncmesh {

inline constexpr size_t kCacheLine = 128;

}  // namespace asyncmesh
