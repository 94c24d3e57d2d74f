// The parameter table that the benchmarks of subset and selection work on: the shape of a small
// transformer, large matrices and the vectors of norms and biases between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernel_bench_memory.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels::bench {

constexpr uint64_t kParameters = uint64_t{32} << 20;  // larger than most caches
constexpr uint32_t kParts = 20;
// Room for the largest part.
constexpr uint64_t packed_room(uint64_t parameters) { return parameters / kParts + 65536; }

struct Model {
  explicit Model(uint32_t granularity, Encoding storage = Encoding::kFloat32,
                 uint64_t parameters = kParameters)
      : memory(encoded_bytes(storage, parameters), std::byte{0x3F}) {
    uint64_t offset = 0;
    for (uint64_t i = 0; offset < parameters; ++i) {
      const uint64_t wanted = i % 3 == 2 ? uint64_t{1} << 20 : 1000;
      const uint64_t count = std::min(wanted, parameters - offset);
      tensors.push_back({memory.data() + encoded_bytes(storage, offset), count, blocks});
      blocks += (count + granularity - 1) / granularity;
      offset += count;
    }
    table = {tensors.data(), static_cast<uint32_t>(tensors.size()), storage};
    subset = {1, blocks, kParts, 0, granularity, UINT64_MAX};
  }
  // The next part, or the first of the next permutation: so that no iteration finds its blocks
  // warm.
  void rotate() {
    subset.part = (subset.part + 1) % kParts;
    if (subset.part == 0) ++subset.key;
  }

  Memory<std::byte> memory;
  std::vector<TensorView> tensors;
  uint64_t blocks = 0;
  ParameterTable table;
  Subset subset;
};

}  // namespace asyncmesh::kernels::bench
