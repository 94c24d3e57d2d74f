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

// Which of a thread's elements: one bit each.
struct Marks {
  uint32_t upper, edge, between;
};

struct TileShared {
  Counts counts;
  uint32_t survivors;       // of the tile so far
  uint32_t first_survivor;  // in the list
};

__device__ Counts counts_of(const uint32_t (&scores)[kLaneValues], uint32_t present, uint32_t low,
                            uint32_t high, Marks& marks) {
  Counts counts = {};
  marks = {};
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) {
    if ((present >> i & 1) == 0 || scores[i] < low) continue;
    if (scores[i] >= high) {
      counts.above_and_at_high += scores[i] > high ? 1 : 0x10000;
      marks.upper |= 1U << i;
      if (scores[i] == high) marks.edge |= 1U << i;
    } else if (scores[i] == low) {
      counts.at_low_and_between += 1;
      marks.edge |= 1U << i;
    } else {
      counts.at_low_and_between += 0x10000;
      marks.upper |= 1U << i;
      marks.between |= 1U << i;
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

// The row's bits, from those of its lanes: 16 each, four to a quad.
__device__ Word word_of_row(uint32_t of_lane) {
  Word word = of_lane;
  word = (word | word << 24) & 0x000000FF000000FFULL;
  word = (word | word << 12) & 0x000F000F000F000FULL;
  word <<= 4 * (threadIdx.x % device::kRowLanes);
  for (int step = 1; step < static_cast<int>(device::kRowLanes); step *= 2) {
    word |= __shfl_xor_sync(device::kAllLanes, word, step);
  }
  return word;
}
static_assert(kLaneValues == 16 && device::kRowLanes == 4);

__device__ void write_row(const TableLaunch& table, const Room& room, uint64_t row,
                          const Marks& marks) {
  const Word upper = word_of_row(marks.upper), edge = word_of_row(marks.edge);
  const uint32_t lane = threadIdx.x % device::kRowLanes;
  const uint64_t begin = row * kScaled, end = begin + kScaled;
  if (lane > 1 || begin >= table.end_element || end <= table.begin_element) return;
  Word* const words = lane == 0 ? room.upper : room.edge;
  const Word before = begin < table.begin_element ? words[row] : 0;
  words[row] = before | (lane == 0 ? upper : edge);
}

__device__ void write_tile(const TableLaunch& table, uint64_t number, const Counts& counts,
                           Tile& tile) {
  const bool begun = number * kTile < table.begin_element;
  const Tile before = begun ? tile : Tile{};
  tile = {before.above + (counts.above_and_at_high & 0xFFFF),
          before.at_high + (counts.above_and_at_high >> 16),
          before.at_low + (counts.at_low_and_between & 0xFFFF),
          before.between + (counts.at_low_and_between >> 16),
          0,
          0};
}

__global__ void __launch_bounds__(kThreads)
    count_kernel(const __grid_constant__ TableLaunch table, const Scores from, Pass pass,
                 const __grid_constant__ Room room) {
  __shared__ TileShared shared[2];
  uint32_t turn = 0;
  if (pass == Pass::kExact && room.state->where != Where::kExact) return;
  const device::TableSource source(table);
  const uint32_t low = room.state->low, high = room.state->high;
  unsigned long long above = 0, at_high = 0, at_low = 0, between = 0;
  for_tiles(table, [&](uint64_t tile) {
    uint32_t scores[kLaneValues], place;
    Marks marks;
    const uint32_t present = tile_scores(source, from, tile, scores);
    const Counts own = counts_of(scores, present, low, high, marks);
    write_row(table, room, row_start(tile) / kScaled, marks);
    const Counts all = add_up(own, shared[turn ^= 1], room.state, place);
    const uint32_t lane = threadIdx.x % device::kRowLanes;
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kLaneValues; ++i) {
      if ((marks.between >> i & 1) == 0) continue;
      const uint64_t element = row_start(tile) + device::lane_offset(lane, i);
      if (place < room.capacity) {
        room.survivors[place] = {scores[i], static_cast<uint32_t>(element)};
      }
      ++place;
    }
    if (threadIdx.x != 0) return;
    write_tile(table, tile, all, room.tiles[tile]);
    above += all.above_and_at_high & 0xFFFF;
    at_high += all.above_and_at_high >> 16;
    at_low += all.at_low_and_between & 0xFFFF;
    between += all.at_low_and_between >> 16;
  });
  if (threadIdx.x != 0 || pass == Pass::kExact) return;
  atomicAdd(&room.state->above, above);
  atomicAdd(&room.state->at_high, at_high);
  atomicAdd(&room.state->at_low, at_low);
  atomicAdd(&room.state->between, between);
}

// The histograms start over all scores, or inside the bracket.
__global__ void __launch_bounds__(kThreads)
    judge_kernel(State* state, uint32_t k, uint32_t capacity) {
  for (uint32_t i = threadIdx.x; i < kBins; i += blockDim.x) state->histogram[i] = 0;
  if (threadIdx.x != 0) return;
  const unsigned long long high = state->above + state->at_high, between = high + state->between;
  const bool lost = k <= between && state->between > capacity;
  if (state->above >= k || between + state->at_low < k || lost) {
    state->where = Where::kExact;
    state->score = 0;
    state->bits = kScoreBits;
    state->rank = k;
  } else if (k <= high) {
    state->where = Where::kHigh;
    state->score = state->high;
    state->rank = static_cast<uint32_t>(k - state->above);
  } else if (k > between) {
    state->where = Where::kLow;
    state->score = state->low;
    state->rank = static_cast<uint32_t>(k - between);
  } else {
    const uint32_t last = state->high - state->low - 2;  // of the scores between, from 0
    state->where = Where::kBetween;
    state->score = state->low + 1;
    state->bits = static_cast<uint32_t>(32 - __clz(static_cast<int>(last)));
    state->rank = static_cast<uint32_t>(k - high);
  }
}

}  // namespace

void count(const TableLaunch& table, const Scores& from, Pass pass, const Room& room,
           void* stream) {
  launch_kernel(count_kernel, tile_groups(table), kThreads, 0, stream, table, from, pass, room);
}

void judge(uint64_t k, const Room& room, void* stream) {
  launch_kernel(judge_kernel, 1, kThreads, 0, stream, room.state, static_cast<uint32_t>(k),
                room.capacity);
}

}  // namespace asyncmesh::kernels::selection
