// Tensors of a test that convert themselves to a parameter table.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace asyncmesh::test {

struct Tensors {
  std::vector<kernels::TensorView> views;
  kernels::Encoding storage = kernels::Encoding::kFloat32;

  // Valid while this lives.
  operator kernels::ParameterTable() const {
    return {
        .tensors = views.data(), .size = static_cast<uint32_t>(views.size()), .storage = storage};
  }
};

// Tensors of these counts, one after the other in memory.
inline Tensors tensors_in(void* memory, const std::vector<uint64_t>& counts,
                          kernels::Encoding storage = kernels::Encoding::kFloat32) {
  Tensors tensors{.views = {}, .storage = storage};
  auto* data = static_cast<std::byte*>(memory);
  for (const uint64_t count : counts) {
    tensors.views.push_back({.data = data, .count = count});
    data += kernels::encoded_bytes(storage, count);
  }
  return tensors;
}

}  // namespace asyncmesh::test
