// What lies before each tile of top_change, and pass 2: the indices.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/tiles.h"
#include "kernels/cuda/top_change_steps.h"

namespace asyncmesh::kernels::selection {
namespace {

// Pieces of kThreads tiles; `pieces` gets the sum of each.
__global__ void __launch_bounds__(kThreads)
    sum_tiles_kernel(const __grid_constant__ Room room, uint64_t tiles) {
  const Where where = room.state->where;
  const uint64_t pieces = (tiles + kThreads - 1) / kThreads;
  for (uint64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const uint64_t tile = piece * kThreads + threadIdx.x;
    const Pair own = tile < tiles ? selected(room.tiles[tile], where) : 0;
    const Pair upto = device::inclusive_scan(own);
    if (tile < tiles) room.before[tile] = upto - own;
    if (threadIdx.x == kThreads - 1) room.pieces[piece] = upto;
  }
}

// One group. Leaves the threshold for the next call.
__global__ void __launch_bounds__(kThreads)
    scan_pieces_kernel(const __grid_constant__ Room room, uint64_t tiles, Threshold* threshold) {
  device::scan_array(room.pieces, (tiles + kThreads - 1) / kThreads);
  if (threadIdx.x != 0) return;
  threshold->score = float_of(room.state->score);
  threshold->passes = room.state->where == Where::kExact ? 3 + kRounds : 2;
}

__device__ uint64_t or_of_row(uint64_t bits) {
  for (int step = 1; step < static_cast<int>(device::kRowLanes); step *= 2) {
    bits |= __shfl_xor_sync(device::kAllLanes, static_cast<Pair>(bits), step);
  }
  return bits;
}

// A row's elements above and at the k-th score, one bit each, known to all its lanes.
struct RowBits {
  uint64_t above, ties;
};

__device__ RowBits bits_of_row(const uint32_t (&scores)[kLaneValues], uint32_t present,
                               uint32_t score) {
  const uint32_t lane = threadIdx.x % device::kRowLanes;
  RowBits bits = {};
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) {
    if ((present >> i & 1) == 0) continue;
    const uint64_t bit = 1ULL << device::lane_offset(lane, i);
    if (scores[i] > score) bits.above |= bit;
    if (scores[i] == score) bits.ties |= bit;
  }
  return {or_of_row(bits.above), or_of_row(bits.ties)};
}

__device__ uint32_t count_bits(uint64_t bits) { return static_cast<uint32_t>(__popcll(bits)); }

// What the rows of the tile before the caller's have, two counts to a word. `warps` is shared.
__device__ uint32_t before_row(const RowBits& bits, uint32_t* warps) {
  const uint32_t own = count_bits(bits.above) | count_bits(bits.ties) << 16;
  const uint32_t lane = threadIdx.x % kWarp;
  uint32_t upto = own;
  for (uint32_t step = device::kRowLanes; step < kWarp; step *= 2) {
    const uint32_t before = __shfl_up_sync(device::kAllLanes, upto, step);
    if (lane >= step) upto += before;
  }
  __syncthreads();
  if (lane == kWarp - 1) warps[threadIdx.x / kWarp] = upto;
  __syncthreads();
  for (uint32_t warp = 0; warp < threadIdx.x / kWarp; ++warp) upto += warps[warp];
  return upto - own;
}

__device__ uint32_t lesser(uint32_t a, uint32_t b) { return a < b ? a : b; }

__global__ void __launch_bounds__(kThreads)
    emit_kernel(const __grid_constant__ TableLaunch table, const Scores from, uint32_t k,
                uint64_t first_tile, const __grid_constant__ Room room, uint32_t* indices) {
  __shared__ uint32_t warps[kThreads / kWarp];
  const device::TableSource source(table);
  const uint32_t score = room.state->score, wanted_ties = room.state->rank;
  const uint32_t lane = threadIdx.x % device::kRowLanes;
  for (uint64_t tile = blockIdx.x; tile < tiles_of(table); tile += gridDim.x) {
    const uint64_t number = first_tile + tile;
    const Pair before_tile = room.before[number] + room.pieces[number / kThreads];
    const Pair own = selected(room.tiles[number], room.state->where);
    const auto ties_before_tile = static_cast<uint32_t>(before_tile);
    if (own >> 32 == 0 && (static_cast<uint32_t>(own) == 0 || ties_before_tile >= wanted_ties)) {
      continue;  // the whole group
    }
    uint32_t scores[kLaneValues];
    const uint32_t present = tile_scores(source, from, tile, scores);
    const RowBits bits = bits_of_row(scores, present, score);
    const uint32_t in_tile = before_row(bits, warps);
    const uint32_t above = static_cast<uint32_t>(before_tile >> 32) + (in_tile & 0xFFFF);
    const uint32_t ties = ties_before_tile + (in_tile >> 16);
    const uint64_t first =
        source.begin() + tile * kTile + threadIdx.x / device::kRowLanes * kScaled;
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kLaneValues; ++i) {
      const uint32_t offset = device::lane_offset(lane, i);
      const bool is_above = (bits.above >> offset & 1) != 0;
      if (!is_above && (bits.ties >> offset & 1) == 0) continue;
      const uint64_t below = (1ULL << offset) - 1;
      const uint32_t ties_before = ties + count_bits(bits.ties & below);
      if (!is_above && ties_before >= wanted_ties) continue;
      const uint32_t at = above + count_bits(bits.above & below) + lesser(ties_before, wanted_ties);
      if (at < k) indices[at] = static_cast<uint32_t>(first + offset);
    }
  }
}

}  // namespace

void scan_tiles(uint64_t tiles, const Room& room, Threshold* threshold, void* stream) {
  launch_kernel(sum_tiles_kernel, groups_for(tiles, kThreads), kThreads, 0, stream, room, tiles);
  launch_kernel(scan_pieces_kernel, 1, kThreads, 0, stream, room, tiles, threshold);
}

void emit(const TableLaunch& table, const Scores& from, uint64_t k, uint64_t first_tile,
          const Room& room, uint32_t* indices, void* stream) {
  const uint64_t elements = table.end_element - table.begin_element;
  launch_kernel(emit_kernel, groups_for(elements, kTile), kThreads, 0, stream, table, from,
                static_cast<uint32_t>(k), first_tile, room, indices);
}

}  // namespace asyncmesh::kernels::selection
