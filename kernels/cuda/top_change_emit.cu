// What lies before each tile of top_change, and its indices from the bits of its rows.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/tiles.h"
#include "kernels/cuda/top_change_steps.h"

namespace asyncmesh::kernels::selection {
namespace {

// Pieces of kThreads tiles; `pieces` gets the sum of each.
__global__ void __launch_bounds__(kThreads) sum_tiles_kernel(const __grid_constant__ Room room) {
  const Where where = room.state->where;
  const uint64_t tiles = tiles_in(room.elements), pieces = (tiles + kThreads - 1) / kThreads;
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
    scan_pieces_kernel(const __grid_constant__ Room room, Threshold* threshold) {
  device::scan_array(room.pieces, (tiles_in(room.elements) + kThreads - 1) / kThreads);
  if (threadIdx.x != 0) return;
  threshold->score = float_of(room.state->score);
  threshold->passes = room.state->where == Where::kExact ? 2 + kRounds : 1;
}

// A thread's 16 elements of a row, one bit each.
struct Share {
  uint32_t above, ties;
};

__device__ Share share_of(const Room& room, uint64_t tile, Where where) {
  const uint64_t first = row_start(tile);
  if (first >= room.elements) return {};
  const Word upper = room.upper[first / kScaled], edge = room.edge[first / kScaled];
  const bool at_edge = where == Where::kHigh || where == Where::kExact;
  const Word above = at_edge ? upper & ~edge : upper;
  const Word ties = at_edge ? upper & edge : edge & ~upper;
  const uint32_t shift = threadIdx.x % device::kRowLanes * kLaneValues;
  return {static_cast<uint32_t>(above >> shift) & 0xFFFF,
          static_cast<uint32_t>(ties >> shift) & 0xFFFF};
}

__device__ uint32_t count_bits(uint32_t bits) { return static_cast<uint32_t>(__popc(bits)); }
__device__ uint32_t lesser(uint32_t a, uint32_t b) { return a < b ? a : b; }

// The thread's indices to `list`, which has those of the tile in order, and room for kTile.
// `ties_left` are wanted of the tile's ties.
__device__ void list_share(const Share& share, uint32_t first, uint32_t ties_left, uint32_t* list) {
  const uint32_t own = count_bits(share.above) | count_bits(share.ties) << 16;
  const uint32_t before = device::inclusive_scan(own) - own;
  uint32_t above = before & 0xFFFF, ties = before >> 16;
  for (uint32_t left = share.above | share.ties; left != 0; left &= left - 1) {
    const uint32_t bit = left & (~left + 1);
    const uint32_t at = above + lesser(ties, ties_left);
    const bool is_above = (share.above & bit) != 0;
    if (is_above || ties < ties_left) list[at] = first + count_bits(bit - 1);
    above += is_above ? 1 : 0;
    ties += is_above ? 0 : 1;
  }
}

// By way of shared memory: a row has a few indices only, or none.
__global__ void __launch_bounds__(kThreads)
    emit_kernel(const __grid_constant__ Room room, uint32_t k, uint32_t* indices) {
  __shared__ uint32_t list[kTile];
  const uint32_t wanted_ties = room.state->rank;
  const Where where = room.state->where;
  const uint64_t tiles = tiles_in(room.elements);
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Pair before = room.before[tile] + room.pieces[tile / kThreads];
    const Pair own = selected(room.tiles[tile], where);
    const uint32_t ties_before = lesser(static_cast<uint32_t>(before), wanted_ties);
    const uint32_t ties = lesser(static_cast<uint32_t>(own), wanted_ties - ties_before);
    const uint32_t count = static_cast<uint32_t>(own >> 32) + ties;
    if (count == 0) continue;  // the whole group
    const uint64_t first = row_start(tile) + threadIdx.x % device::kRowLanes * kLaneValues;
    list_share(share_of(room, tile, where), static_cast<uint32_t>(first), ties, list);
    __syncthreads();
    const uint64_t out = (before >> 32) + ties_before;
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      if (out + i < k) indices[out + i] = list[i];
    }
    __syncthreads();
  }
}

}  // namespace

void scan_tiles(const Room& room, Threshold* threshold, void* stream) {
  launch_kernel(sum_tiles_kernel, groups_for(tiles_in(room.elements), kThreads), kThreads, 0,
                stream, room);
  launch_kernel(scan_pieces_kernel, 1, kThreads, 0, stream, room, threshold);
}

void emit(uint64_t k, const Room& room, uint32_t* indices, void* stream) {
  launch_kernel(emit_kernel, groups_for(tiles_in(room.elements), 1), kThreads, 0, stream, room,
                static_cast<uint32_t>(k), indices);
}

}  // namespace asyncmesh::kernels::selection
