// What one CUDA thread does, without CUDA types: the .cu files map threads to these functions. The
// arithmetic is that of element.h and encoding.h, compiled with --fmad=false, so that results equal
// those of the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/subset_launch.h"
#include "kernels/element.h"
#include "kernels/encoding.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels::device {

ASYNCMESH_INLINE float read_encoded(const std::byte* values, uint64_t i, Encoding encoding) {
  if (encoding == Encoding::kFloat32) return reinterpret_cast<const float*>(values)[i];
  const uint16_t word = reinterpret_cast<const uint16_t*>(values)[i];
  return encoding == Encoding::kBfloat16 ? from_bfloat16(word) : from_float16(word);
}

ASYNCMESH_INLINE void write_encoded(std::byte* values, uint64_t i, Encoding encoding, float value) {
  if (encoding == Encoding::kFloat32) {
    reinterpret_cast<float*>(values)[i] = value;
  } else {
    reinterpret_cast<uint16_t*>(values)[i] =
        encoding == Encoding::kBfloat16 ? to_bfloat16(value) : to_float16(value);
  }
}

ASYNCMESH_INLINE bool finite(float value) { return (bits_of(value) & 0x7F800000U) != 0x7F800000U; }

ASYNCMESH_INLINE float read_stored(const void* values, uint64_t i, Encoding storage) {
  return read_encoded(static_cast<const std::byte*>(values), i, storage);
}

ASYNCMESH_INLINE void write_stored(void* values, uint64_t i, Encoding storage, float value) {
  write_encoded(static_cast<std::byte*>(values), i, storage, value);
}

struct PackOutputs {
  Encoding storage;
  Encoding encoding;
  float* snapshot;     // may be null
  std::byte* encoded;  // may be null
};

// Lane `lane` of the `lanes` that share block `index` of the subset.
ASYNCMESH_INLINE void pack(const SubsetLaunch& launch, const PackOutputs& out, uint64_t index,
                           uint32_t lane, uint32_t lanes) {
  LaunchPlace place;
  if (!launch.locate(index, place)) return;
  const void* const data = launch.tensors[place.tensor].data;
  for (uint32_t i = lane; i < place.count; i += lanes) {
    const float value = read_stored(data, place.offset + i, out.storage);
    if (out.snapshot != nullptr) out.snapshot[place.packed + i] = value;
    if (out.encoded != nullptr) write_encoded(out.encoded, place.packed + i, out.encoding, value);
  }
}

struct ApplyInputs {
  Rule rule;
  Encoding storage, mirror_storage, encoding;
  ApplyFactors first, later;
  const float* snapshot;
  const float* mean;
  const std::byte* own;     // null: lossless
  float* ema;               // null unless kEma
  const uint64_t* visited;  // null unless kEma
};

ASYNCMESH_INLINE bool was_visited(const uint64_t* visited, uint64_t block) {
  return (visited[block / 64] >> (block % 64) & 1) != 0;
}

// Leaves `visited` alone: the bits are set by a launch that follows, when no lane reads them.
ASYNCMESH_INLINE void apply(const SubsetLaunch& launch, const ApplyInputs& in, uint64_t index,
                            uint32_t lane, uint32_t lanes) {
  LaunchPlace place;
  if (!launch.locate(index, place)) return;
  const LaunchTensor& tensor = launch.tensors[place.tensor];
  const bool again = in.rule == Rule::kEma && was_visited(in.visited, place.block);
  const ApplyFactors& factors = again ? in.later : in.first;
  for (uint32_t i = lane; i < place.count; i += lanes) {
    const float w = read_stored(tensor.data, place.offset + i, in.storage);
    const uint64_t at = place.packed + i;
    const float snapshot = in.snapshot[at], drift = w - snapshot;
    const float target = in.own == nullptr ? in.mean[at]
                                           : lossy_target(snapshot, in.mean[at],
                                                          read_encoded(in.own, at, in.encoding));
    float next = target;
    if (in.rule == Rule::kDelta) {
      next = corrected(factors, target, drift);
    } else if (in.rule == Rule::kEma) {
      float& ema = in.ema[place.element + i];
      ema = again ? ema_next(factors, ema, drift) : ema_first(factors, drift);
      next = corrected(factors, target, ema);
    }
    write_stored(tensor.data, place.offset + i, in.storage, next);
    if (tensor.mirror != nullptr) {
      write_stored(tensor.mirror, place.offset + i, in.mirror_storage, next);
    }
  }
}

struct AverageArgs {
  const std::byte* values[kMaxMembers];
  float weights[kMaxMembers];  // 0: not a candidate
  uint32_t members;
  Encoding encoding;
  uint64_t count;
  float* mean;
};

// The mean's factors that do not depend on the element; usable is false below two contributions.
struct AverageSum {
  ASYNCMESH_INLINE AverageSum(const AverageArgs& args, uint64_t not_finite)
      : left_out(not_finite), usable(false), reciprocal(0) {
    double weight_sum = 0;
    uint32_t averaged = 0;
    for (uint32_t r = 0; r < args.members; ++r) {
      if (skips(args, r)) continue;
      weight_sum += static_cast<double>(args.weights[r]);
      ++averaged;
    }
    usable = averaged >= 2;
    if (usable) reciprocal = static_cast<float>(1.0 / weight_sum);
  }
  ASYNCMESH_INLINE bool skips(const AverageArgs& args, uint32_t r) const {
    return args.weights[r] == 0 || (left_out >> r & 1) != 0;
  }

  uint64_t left_out;
  bool usable;
  float reciprocal;
};

ASYNCMESH_INLINE void average(const AverageArgs& args, const AverageSum& sum, uint64_t i) {
  float total = 0;
  bool first = true;
  for (uint32_t r = 0; r < args.members; ++r) {
    if (sum.skips(args, r)) continue;
    const float term = args.weights[r] * read_encoded(args.values[r], i, args.encoding);
    total = first ? term : total + term;
    first = false;
  }
  args.mean[i] = total * sum.reciprocal;
}

}  // namespace asyncmesh::kernels::device
