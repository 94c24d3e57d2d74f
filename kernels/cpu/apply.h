// What the threads of `apply` are told.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/run_decoder.h"
#include "kernels/cpu/subset_spread.h"
#include "kernels/element.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels {

// What is added to the target: nothing, the drift, the EMA of it, or the EMA's first value.
enum class ApplyStep : uint8_t { kNone, kDrift, kEma, kFirstEma };

struct ApplyJob {
  const ParameterTable& table;
  const Subset& subset;
  const ApplyArrays& arrays;
  ApplyStep step = ApplyStep::kNone;
  ApplyFactors later = {};
  ApplyFactors first = {};  // of a block's first visit
  uint64_t count = 0;       // values of the subset, where `own` is decoded
  bool shared = false;      // other threads set bits of the same words
};

// A run within a piece; advances through all arrays alike.
struct ApplyRun {
  std::byte* w;  // in the table's storage
  const float* snapshot;
  const float* mean;
  const std::byte* own;  // 16-bit words, or fp32 ones of what is scaled; null: lossless
  float* ema;            // kEma only
};

// Tests and sets the bit of a block.
inline bool first_visit(const ApplyJob& job, uint64_t block) noexcept {
  uint64_t& word = job.arrays.visited[block / 64];
  const uint64_t bit = uint64_t{1} << (block % 64);
  if (job.shared) {
    const std::atomic_ref<uint64_t> all(word);
    if ((all.load(std::memory_order_relaxed) & bit) != 0) return false;
    return (all.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }
  const bool first = (word & bit) == 0;
  word |= bit;
  return first;
}

}  // namespace asyncmesh::kernels
