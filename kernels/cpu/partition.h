// What a thread is told about its part of partition_pack and partition_unpack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/subset_spread.h"

namespace asyncmesh::kernels {

struct PackJob {
  const ParameterTable& table;
  const Subset& subset;
  const Wire& wire;
  float* snapshot;
  std::byte* encoded;
  bool streams;  // the table is larger than the caches
};

struct PackRange {
  BlockRange blocks;  // where the values are looked for
  uint64_t first;     // number of the first value that counts
  uint64_t skip;      // values of the blocks before it: less than a group
  uint64_t count;     // values that count: whole groups; the last range takes all that come
};

struct UnpackJob {
  const ParameterTable& table;
  const Subset& subset;
  Encoding encoding;
  const std::byte* encoded;
  uint64_t count;  // values in all, where they are decoded
  bool streams;    // the table is larger than the caches
};

}  // namespace asyncmesh::kernels
