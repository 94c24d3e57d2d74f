// The scores of a tile: a row of 64 elements to four lanes, as in rows.h.
#pragma once

#include "kernels/cuda/rows.h"
#include "kernels/cuda/top_change.h"

namespace asyncmesh::kernels::selection {

using device::kLaneValues;

// 16 values of a flat array, for the elements that `present` names.
__device__ inline void gather_flat(const float* array, uint64_t first, uint32_t lane,
                                   uint32_t present, float (&values)[kLaneValues]) {
  if (present == device::kAllPresent && device::quads_aligned(array + first)) {
    ASYNCMESH_UNROLLED
    for (uint32_t k = 0; k < kLaneValues / 4; ++k) {
      const auto quad = device::read<4>(array, first + device::lane_offset(lane, 4 * k));
      for (uint32_t j = 0; j < 4; ++j) values[4 * k + j] = quad.at[j];
    }
    return;
  }
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) {
    values[i] = (present >> i & 1) != 0 ? array[first + device::lane_offset(lane, i)] : 0;
  }
}

// Where the thread's row of a tile of the table starts.
__device__ inline uint64_t row_start(uint64_t tile) {
  return tile * kTile + threadIdx.x / device::kRowLanes * kScaled;
}

// The thread's scores of a tile; returns which of them are of this launch.
__device__ inline uint32_t tile_scores(const device::TableSource& source, const Scores& from,
                                       uint64_t tile, uint32_t (&scores)[kLaneValues]) {
  const uint32_t lane = threadIdx.x % device::kRowLanes;
  const uint64_t first = row_start(tile);
  float w[kLaneValues], reference[kLaneValues], weight[kLaneValues];
  const uint32_t present = device::gather(source, first, lane, w);
  gather_flat(from.reference, first, lane, present, reference);
  if (from.weight != nullptr) {
    gather_flat(from.weight, first, lane, present, weight);
  } else {
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kLaneValues; ++i) weight[i] = 1;
  }
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) scores[i] = score_of(w[i], reference[i], weight[i]);
  return present;
}

// Calls visit(tile) for the group's share of the tiles that the launch has elements of.
template <typename Visit>
__device__ void for_tiles(const TableLaunch& table, const Visit& visit) {
  const uint64_t end = tiles_in(table.end_element);
  for (uint64_t tile = table.begin_element / kTile + blockIdx.x; tile < end; tile += gridDim.x) {
    visit(tile);
  }
}
inline uint32_t tile_groups(const TableLaunch& table) {
  return groups_for(tiles_in(table.end_element) - table.begin_element / kTile, 1);
}

}  // namespace asyncmesh::kernels::selection
