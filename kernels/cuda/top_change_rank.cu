// The k-th score by its leading bits: histograms over the survivors, or over the data where the
// bracket failed.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/tiles.h"
#include "kernels/cuda/top_change_steps.h"

namespace asyncmesh::kernels::selection {
namespace {

// A histogram of the scores that may be the k-th, in shared memory, added to the global one at the
// end.
class Bins {
 public:
  // The scores of a bin differ in this many bits.
  __device__ static uint32_t shift_of(uint32_t bits) {
    return bits > kBinBits ? bits - kBinBits : 0;
  }

  __device__ Bins(uint32_t* bins, const State& state)
      : bins_(bins), first_(state.score), bits_(state.bits), shift_(shift_of(state.bits)) {
    for (uint32_t i = threadIdx.x; i < kBins; i += blockDim.x) bins_[i] = 0;
    __syncthreads();
  }
  __device__ void add(uint32_t score) {
    const uint32_t offset = score - first_;  // from 2^31 on where it is below
    if (offset >> bits_ == 0) atomicAdd(&bins_[offset >> shift_], 1);
  }
  __device__ void finish(uint32_t* global) const {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kBins; i += blockDim.x) {
      if (bins_[i] != 0) atomicAdd(&global[i], bins_[i]);
    }
  }

 private:
  uint32_t* bins_;
  uint32_t first_, bits_, shift_;
};

__global__ void __launch_bounds__(kThreads)
    histogram_data_kernel(const __grid_constant__ TableLaunch table, const Scores from,
                          State* state) {
  __shared__ uint32_t shared[kBins];
  if (state->where != Where::kExact) return;
  const device::TableSource source(table);
  Bins bins(shared, *state);
  for_tiles(table, [&](uint64_t tile) {
    uint32_t scores[kLaneValues];
    const uint32_t present = tile_scores(source, from, tile, scores);
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kLaneValues; ++i) {
      if ((present >> i & 1) != 0) bins.add(scores[i]);
    }
  });
  bins.finish(state->histogram);
}

// A narrow bracket takes fewer rounds than there are.
__global__ void __launch_bounds__(kThreads)
    histogram_survivors_kernel(const Survivor* survivors, State* state) {
  __shared__ uint32_t shared[kBins];
  if (state->where != Where::kBetween || state->bits == 0) return;
  Bins bins(shared, *state);
  const uint64_t count = state->survivors, stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    bins.add(survivors[i].score);
  }
  bins.finish(state->histogram);
}

// One group: the bin of the k-th score narrows down what it may be.
__global__ void __launch_bounds__(kThreads) pick_kernel(uint32_t round, State* state) {
  if (state->where != Where::kExact && state->where != Where::kBetween) return;
  if (state->bits == 0) return;
  constexpr uint32_t kOwn = kBins / kThreads;
  const uint32_t top = kBins - 1 - threadIdx.x * kOwn;  // each thread has kOwn bins, down from here
  const uint32_t rank = state->rank, shift = Bins::shift_of(state->bits);
  uint32_t own = 0;
  for (uint32_t i = 0; i < kOwn; ++i) own += state->histogram[top - i];
  const auto upto = device::inclusive_scan(own);
  uint32_t before = upto - own;
  if (before < rank && rank <= upto) {
    uint32_t bin = top;
    for (; before + state->histogram[bin] < rank; --bin) before += state->histogram[bin];
    state->rank = rank - before;
    state->score += bin << shift;
    state->bits = shift;
  }
  __syncthreads();
  for (uint32_t i = 0; i < kOwn; ++i) state->histogram[top - i] = 0;
  // For the count that follows where the bracket failed.
  if (threadIdx.x == 0 && round + 1 == kRounds) state->low = state->high = state->score;
}

// What the rows know of the edges is of no use where the k-th score is between them.
__global__ void __launch_bounds__(kThreads)
    forget_edges_kernel(Word* edge, uint64_t rows, const State* state) {
  if (state->where != Where::kBetween) return;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    edge[i] = 0;
  }
}

__global__ void __launch_bounds__(kThreads) settle_kernel(const __grid_constant__ Room room) {
  const State& state = *room.state;
  const Where where = state.where;
  if (where != Where::kBetween && where != Where::kHigh) return;
  const uint64_t count = state.survivors, stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Survivor survivor = room.survivors[i];
    const uint32_t row = survivor.element / kScaled;
    const Word bit = Word{1} << survivor.element % kScaled;
    Tile& tile = room.tiles[survivor.element / kTile];
    if (where == Where::kBetween && survivor.score > state.score) {
      atomicAdd(&tile.between_above, 1);
      continue;
    }
    atomicAnd(&room.upper[row], ~bit);
    if (where == Where::kHigh || survivor.score != state.score) continue;
    atomicAdd(&tile.between_at, 1);
    atomicOr(&room.edge[row], bit);
  }
}

}  // namespace

void histogram_data(const TableLaunch& table, const Scores& from, const Room& room, void* stream) {
  launch_kernel(histogram_data_kernel, tile_groups(table), kThreads, 0, stream, table, from,
                room.state);
}

void histogram_survivors(const Room& room, void* stream) {
  launch_kernel(histogram_survivors_kernel, groups_for(room.capacity, kTile), kThreads, 0, stream,
                room.survivors, room.state);
}

void pick(uint32_t round, const Room& room, void* stream) {
  launch_kernel(pick_kernel, 1, kThreads, 0, stream, round, room.state);
}

void settle(const Room& room, void* stream) {
  const uint64_t rows = (room.elements + kScaled - 1) / kScaled;
  launch_kernel(forget_edges_kernel, groups_for(rows, kTile), kThreads, 0, stream, room.edge, rows,
                room.state);
  launch_kernel(settle_kernel, groups_for(room.capacity, kTile), kThreads, 0, stream, room);
}

}  // namespace asyncmesh::kernels::selection
