// The inner loops of the CPU kernels over contiguous runs of elements, compiled once per
// instruction set; results are bitwise equal whichever is chosen.
//
// fp32 pointers are aligned to 4, encoded ones need no alignment. Runs do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels {

// A run of one block of `apply`.
struct ApplyRow {
  float* w;
  const float* snapshot;
  const float* mean;
  const float* own;  // decoded; null: the encoding is lossless
  float* ema;        // kEma only
  uint64_t count;
  bool first_visit;  // kEma only
};

struct NadamwRow {
  float* w;
  const float* gradient;
  float* m;
  float* v;
  float* mirror;  // may be null
  uint64_t count;
};

struct Rows {
  const char* isa;
  void (*encode)(const float* values, uint64_t count, Encoding encoding, std::byte* out);
  void (*decode)(const std::byte* values, uint64_t count, Encoding encoding, float* out);
  bool (*all_finite)(const std::byte* values, uint64_t count, Encoding encoding);
  // sum = weight x decode(values), or sum += ...
  void (*weigh)(const std::byte* values, uint64_t count, Encoding encoding, float weight,
                float* sum);
  void (*add_weighed)(const std::byte* values, uint64_t count, Encoding encoding, float weight,
                      float* sum);
  void (*multiply)(float* values, uint64_t count, float factor);
  void (*apply)(const ApplyRow& row, Rule rule, const ApplyFactors& factors);
  void (*nadamw)(const NadamwRow& row, const NadamwFactors& factors);
  double (*sum_of_squares)(const float* values, uint64_t count);
};

const Rows& baseline_rows() noexcept;
// Null where it was not compiled or this machine cannot run it.
const Rows* avx2_rows() noexcept;
// The best of them, chosen once.
const Rows& rows() noexcept;

}  // namespace asyncmesh::kernels
