// Pass 1 of top_change, and where the k-th score is after it.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tiles.h"
#include "kernels/cuda/top_change_steps.h"

namespace asyncmesh::kernels::selection {
namespace {

// What a tile, or a thread of it, has. Two counts to a word, none above kTile.
struct Counts {
  uint32_t above_and_at_high, at_low_and_between;
};

struct TileShared {
  Counts counts;
  uint32_t survivors;       // of the tile so far
  uint32_t first_survivor;  // in the list
};

__device__ Counts counts_of(const uint32_t (&scores)[kLaneValues], uint32_t present, uint32_t low,
                            uint32_t high, uint32_t& between) {
  Counts counts = {};
  between = 0;
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) {
    if ((present >> i & 1) == 0 || scores[i] < low) continue;
    if (scores[i] >= high) {
      counts.above_and_at_high += scores[i] > high ? 1 : 0x10000;
    } else if (scores[i] == low) {
      counts.at_low_and_between += 1;
    } else {
      counts.at_low_and_between += 0x10000;
      between |= 1U << i;
    }
  }
  return counts;
}

// The tile's counts, in every thread; `place` is where the thread's survivors go. Tiles take turns
// with two `shared`, so that nobody resets what others still read.
__device__ Counts add_up(const Counts& own, TileShared& shared, State* state, uint32_t& place) {
  if (threadIdx.x == 0) shared = {};
  __syncthreads();
  const Counts of_warp = {__reduce_add_sync(device::kAllLanes, own.above_and_at_high),
                          __reduce_add_sync(device::kAllLanes, own.at_low_and_between)};
  if (threadIdx.x % kWarp == 0) {
    atomicAdd(&shared.counts.above_and_at_high, of_warp.above_and_at_high);
    atomicAdd(&shared.counts.at_low_and_between, of_warp.at_low_and_between);
  }
  const uint32_t survivors = own.at_low_and_between >> 16;
  place = survivors == 0 ? 0 : atomicAdd(&shared.survivors, survivors);
  __syncthreads();
  if (threadIdx.x == 0 && shared.survivors != 0) {
    shared.first_survivor = atomicAdd(&state->survivors, shared.survivors);
  }
  const Counts all = shared.counts;
  __syncthreads();
  place += shared.first_survivor;
  return all;
}

__global__ void __launch_bounds__(kThreads)
    count_kernel(const __grid_constant__ TableLaunch table, const Scores from, Pass pass,
                 uint64_t first_tile, const Room room) {
  __shared__ TileShared shared[2];
  uint32_t turn = 0;
  if (pass == Pass::kExact && room.state->where != Where::kExact) return;
  const device::TableSource source(table);
  const uint32_t low = room.state->low, high = room.state->high;
  unsigned long long above = 0, at_high = 0, at_low = 0, between = 0;
  for (uint64_t tile = blockIdx.x; tile < tiles_of(table); tile += gridDim.x) {
    uint32_t scores[kLaneValues], survivors, place;
    const uint32_t present = tile_scores(source, from, tile, scores);
    const Counts own = counts_of(scores, present, low, high, survivors);
    const Counts all = add_up(own, shared[turn ^= 1], room.state, place);
    const auto number = static_cast<uint32_t>(first_tile + tile);
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kLaneValues; ++i) {
      if ((survivors >> i & 1) == 0) continue;
      if (place < room.capacity) room.survivors[place] = {scores[i], number};
      ++place;
    }
    if (threadIdx.x != 0) continue;
    room.tiles[number] = {all.above_and_at_high & 0xFFFF,
                          all.above_and_at_high >> 16,
                          all.at_low_and_between & 0xFFFF,
                          all.at_low_and_between >> 16,
                          0,
                          0};
    above += all.above_and_at_high & 0xFFFF;
    at_high += all.above_and_at_high >> 16;
    at_low += all.at_low_and_between & 0xFFFF;
    between += all.at_low_and_between >> 16;
  }
  if (threadIdx.x != 0 || pass == Pass::kExact) return;
  atomicAdd(&room.state->above, above);
  atomicAdd(&room.state->at_high, at_high);
  atomicAdd(&room.state->at_low, at_low);
  atomicAdd(&room.state->between, between);
}

__global__ void __launch_bounds__(kThreads)
    judge_kernel(State* state, uint32_t k, uint32_t capacity) {
  for (uint32_t i = threadIdx.x; i < kBins; i += blockDim.x) state->histogram[i] = 0;
  if (threadIdx.x != 0) return;
  const unsigned long long high = state->above + state->at_high, between = high + state->between;
  state->score = 0;
  state->rank = k;
  if (state->above >= k || between + state->at_low < k) {
    state->where = Where::kExact;
  } else if (k <= high) {
    state->where = Where::kHigh;
    state->score = state->high;
    state->rank = static_cast<uint32_t>(k - state->above);
  } else if (k > between) {
    state->where = Where::kLow;
    state->score = state->low;
    state->rank = static_cast<uint32_t>(k - between);
  } else if (state->between > capacity) {
    state->where = Where::kExact;
  } else {
    state->where = Where::kBetween;
    state->rank = static_cast<uint32_t>(k - high);
  }
}

}  // namespace

void count(const TableLaunch& table, const Scores& from, Pass pass, uint64_t first_tile,
           const Room& room, void* stream) {
  const uint64_t elements = table.end_element - table.begin_element;
  launch_kernel(count_kernel, groups_for(elements, kTile), kThreads, 0, stream, table, from, pass,
                first_tile, room);
}

void judge(uint64_t k, const Room& room, void* stream) {
  launch_kernel(judge_kernel, 1, kThreads, 0, stream, room.state, static_cast<uint32_t>(k),
                room.capacity);
}

}  // namespace asyncmesh::kernels::selection
