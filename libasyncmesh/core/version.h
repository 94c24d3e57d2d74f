// The library's version: every rank of a mesh must have the same.
#pragma once

#include <cstdint>

namespace asyncmesh::core {

const char* version_text() noexcept;  // "0.1.0", from the build

inline constexpr uint32_t kAbiRevision = 2;  // asserted equal to asyncmesh.h's

}  // namespace asyncmesh::core
