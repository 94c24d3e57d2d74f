// The shape of launches.
#pragma once

#include <cstdint>

namespace asyncmesh::kernels {

inline constexpr uint32_t kThreads = 256;
inline constexpr uint32_t kWarp = 32;
// For __launch_bounds__ of kernels that the compiler would otherwise rather spill than give more
// than 64 registers.
inline constexpr uint32_t kFewGroups = 2;
inline constexpr uint32_t kGroupValues = 4096;  // that a thread block takes at a time: 16 a thread

// Thread blocks for `items` pieces of work of which one thread block takes `per_group` at a time:
// as many as the current device runs at once, whose threads then take turns.
uint32_t groups_for(uint64_t items, uint64_t per_group) noexcept;

}  // namespace asyncmesh::kernels
