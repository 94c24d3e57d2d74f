// The k-th score by its leading bits: histograms over the survivors, or over the data where the
// bracket failed.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/tiles.h"
#include "kernels/cuda/top_change_steps.h"

namespace asyncmesh::kernels::selection {
namespace {

// The bits that a round looks at start here; those above are known.
__host__ __device__ constexpr uint32_t shift_of(uint32_t round) {
  return round == 0 ? 20 : round == 1 ? 9 : 0;
}

// A histogram in shared memory, added to the global one at the end.
class Bins {
 public:
  __device__ Bins(uint32_t* bins, uint32_t round, uint32_t known)
      : bins_(bins),
        shift_(shift_of(round)),
        above_(round == 0 ? 31 : shift_of(round - 1)),
        known_(known) {
    for (uint32_t i = threadIdx.x; i < kBins; i += blockDim.x) bins_[i] = 0;
    __syncthreads();
  }
  __device__ void add(uint32_t score) {
    if (score >> above_ != known_ >> above_) return;
    atomicAdd(&bins_[score >> shift_ & ((1U << (above_ - shift_)) - 1)], 1);
  }
  __device__ void finish(uint32_t* global) const {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kBins; i += blockDim.x) {
      if (bins_[i] != 0) atomicAdd(&global[i], bins_[i]);
    }
  }

 private:
  uint32_t* bins_;
  uint32_t shift_, above_, known_;
};

__global__ void __launch_bounds__(kThreads)
    histogram_data_kernel(const __grid_constant__ TableLaunch table, const Scores from,
                          uint32_t round, State* state) {
  __shared__ uint32_t shared[kBins];
  if (state->where != Where::kExact) return;
  const device::TableSource source(table);
  Bins bins(shared, round, state->score);
  for (uint64_t tile = blockIdx.x; tile < tiles_of(table); tile += gridDim.x) {
    uint32_t scores[kLaneValues];
    const uint32_t present = tile_scores(source, from, tile, scores);
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kLaneValues; ++i) {
      if ((present >> i & 1) != 0) bins.add(scores[i]);
    }
  }
  bins.finish(state->histogram);
}

__global__ void __launch_bounds__(kThreads)
    histogram_survivors_kernel(const Survivor* survivors, uint32_t round, State* state) {
  __shared__ uint32_t shared[kBins];
  if (state->where != Where::kBetween) return;
  Bins bins(shared, round, state->score);
  const uint64_t count = state->survivors, stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    bins.add(survivors[i].score);
  }
  bins.finish(state->histogram);
}

// One group: the bin of the k-th score adds its bits to what is known.
__global__ void __launch_bounds__(kThreads) pick_kernel(uint32_t round, State* state) {
  if (state->where != Where::kExact && state->where != Where::kBetween) return;
  constexpr uint32_t kOwn = kBins / kThreads;
  const uint32_t top = kBins - 1 - threadIdx.x * kOwn;  // each thread has kOwn bins, down from here
  const uint32_t rank = state->rank;
  uint32_t own = 0;
  for (uint32_t i = 0; i < kOwn; ++i) own += state->histogram[top - i];
  const auto upto = device::inclusive_scan(own);
  uint32_t before = upto - own;
  if (before < rank && rank <= upto) {
    uint32_t bin = top;
    for (; before + state->histogram[bin] < rank; --bin) before += state->histogram[bin];
    state->rank = rank - before;
    state->score |= bin << shift_of(round);
  }
  __syncthreads();
  for (uint32_t i = 0; i < kOwn; ++i) state->histogram[top - i] = 0;
  // For the count that follows where the bracket failed.
  if (threadIdx.x == 0 && round + 1 == kRounds) state->low = state->high = state->score;
}

__global__ void __launch_bounds__(kThreads)
    settle_kernel(const Survivor* survivors, const State* state, Tile* tiles) {
  if (state->where != Where::kBetween) return;
  const uint64_t count = state->survivors, stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Survivor survivor = survivors[i];
    if (survivor.score < state->score) continue;
    Tile& tile = tiles[survivor.tile];
    atomicAdd(survivor.score > state->score ? &tile.between_above : &tile.between_at, 1);
  }
}

}  // namespace

void histogram_data(const TableLaunch& table, const Scores& from, uint32_t round, const Room& room,
                    void* stream) {
  const uint64_t elements = table.end_element - table.begin_element;
  launch_kernel(histogram_data_kernel, groups_for(elements, kTile), kThreads, 0, stream, table,
                from, round, room.state);
}

void histogram_survivors(uint32_t round, const Room& room, void* stream) {
  launch_kernel(histogram_survivors_kernel, groups_for(room.capacity, kTile), kThreads, 0, stream,
                room.survivors, round, room.state);
}

void pick(uint32_t round, const Room& room, void* stream) {
  launch_kernel(pick_kernel, 1, kThreads, 0, stream, round, room.state);
}

void settle(const Room& room, void* stream) {
  launch_kernel(settle_kernel, groups_for(room.capacity, kTile), kThreads, 0, stream,
                room.survivors, room.state, room.tiles);
}

}  // namespace asyncmesh::kernels::selection
