// What the threads of `average` are told.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {

// The contributions that take part, in member order.
struct Taking {
  const std::byte* values[kMaxMembers];
  float weights[kMaxMembers];
  uint32_t members[kMaxMembers];
  uint32_t size = 0;
  Encoding encoding = Encoding::kFloat32;
  uint64_t count = 0;    // values of each
  float reciprocal = 1;  // of the sum of the weights
  bool streams = false;  // the mean is larger than the caches: it is written around them
};

}  // namespace asyncmesh::kernels
