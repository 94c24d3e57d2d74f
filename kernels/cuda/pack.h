// A row of values on its way to the wire: what every kernel that encodes does.
#pragma once

#include "kernels/cuda/encode.h"

namespace asyncmesh::kernels::device {

// Subtracts what the receivers have already; explicit indices only.
template <typename Source>
__device__ void subtract_reference(const Source& source, const PackOutputs& out, uint64_t row,
                                   uint32_t lane, uint32_t present, float (&values)[kLaneValues]) {
  if constexpr (Source::kScattered) {
    if (out.reference == nullptr) return;
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kLaneValues; ++i) {
      if ((present >> i & 1) == 0) continue;
      values[i] -= out.reference[source.element(row * kScaled + lane_offset(lane, i))];
    }
  }
}

template <typename Source>
__device__ void advance_reference(const Source& source, const PackOutputs& out, uint64_t position,
                                  const BlockScale& scale, const uint32_t (&words)[4],
                                  uint32_t present) {
  if constexpr (Source::kScattered) {
    if (out.reference == nullptr) return;
    ASYNCMESH_UNROLLED
    for (uint32_t j = 0; j < 4; ++j) {
      if ((present >> j & 1) == 0) continue;
      out.reference[source.element(position + j)] +=
          decoded_word(out.wire.encoding, scale, words[j]);
    }
  }
}

template <typename Source>
__device__ void pack_row(const Source& source, const PackOutputs& out, uint64_t row,
                         uint32_t lane) {
  float values[kLaneValues];
  const uint32_t present = gather(source, row * kScaled, lane, values);
  subtract_reference(source, out, row, lane, present, values);
  if (out.snapshot != nullptr) {
    ASYNCMESH_UNROLLED
    for (uint32_t k = 0; k < kLaneValues / 4; ++k) {
      write_snapshot(out, row * kScaled + lane_offset(lane, 4 * k), values + 4 * k,
                     present >> (4 * k) & 0xF);
    }
  }
  if (out.encoded == nullptr) return;  // all lanes
  BlockScale scale = {};
  if (scaled(out.wire.encoding)) {
    scale = block_scale(largest_of_row(largest_of_lane(values)), out.wire.encoding);
    const bool unused = row * kScaled >= out.count && row < rows_of(out);
    if (lane == 0 && (present != 0 || unused)) *scale_slot(out, row) = scale.scale;
  }
  const LaneRandom random(out, row, lane);
  ASYNCMESH_UNROLLED
  for (uint32_t k = 0; k < kLaneValues / 4; ++k) {
    uint32_t words[4];
    ASYNCMESH_UNROLLED
    for (uint32_t j = 0; j < 4; ++j) {
      words[j] = wire_word(out.wire, scale, values[4 * k + j], random.bits(4 * k + j));
    }
    const uint64_t position = row * kScaled + lane_offset(lane, 4 * k);
    write_words(out, position, words, present >> (4 * k) & 0xF);
    advance_reference(source, out, position, scale, words, present >> (4 * k) & 0xF);
  }
}

template <typename Source>
__device__ void pack_rows(const Source& source, const PackOutputs& out) {
  const bool last = source.end() == out.count;
  const uint64_t end = last ? rows_of(out) : (source.end() + kScaled - 1) / kScaled;
  for_rows(source.begin() / kScaled, end,
           [&](uint64_t row, uint32_t lane) { pack_row(source, out, row, lane); });
}

}  // namespace asyncmesh::kernels::device
