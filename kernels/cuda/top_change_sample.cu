// The bracket of top_change, from a sample.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tiles.h"
#include "kernels/cuda/top_change_steps.h"

namespace asyncmesh::kernels::selection {
namespace {

__global__ void __launch_bounds__(kThreads)
    sample_kernel(const __grid_constant__ TableLaunch table, const Scores from, uint64_t elements,
                  uint32_t* sample) {
  const device::TableSource source(table);
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t element = sampled_element(elements, i);
  if (element < source.begin() || element >= source.end()) return;
  const LaunchPlace place = source.find(element);
  const float w = device::read<1>(device::in_global(place.data), place.offset, table.storage).at[0];
  sample[i] =
      score_of(w, from.reference[element], from.weight != nullptr ? from.weight[element] : 1);
}

// But for the bracket.
__device__ void open_state(State* state) {
  state->where = Where::kHigh;
  state->rank = state->score = state->bits = state->survivors = 0;
  state->above = state->at_high = state->at_low = state->between = 0;
}

__global__ void open_bracket_kernel(State* state) {
  open_state(state);
  state->low = 0;
  state->high = kScoreLimit;
}

// Two groups, one for each side of the bracket: the score at a rank of the sample, largest first
// from 1, found bit by bit. A rank that is not in the sample leaves its side open.
__global__ void __launch_bounds__(kThreads)
    bracket_kernel(const uint32_t* sample, State* state, uint32_t high_rank, uint32_t low_rank) {
  __shared__ uint32_t counts[kScoreBits];
  const uint32_t rank = blockIdx.x == 0 ? high_rank : low_rank;
  uint32_t scores[kSample / kThreads];
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kSample / kThreads; ++i) scores[i] = sample[i * kThreads + threadIdx.x];
  if (threadIdx.x < kScoreBits) counts[threadIdx.x] = 0;
  __syncthreads();
  uint32_t found = 0;
  for (uint32_t bit = kScoreBits; bit-- != 0;) {
    const uint32_t next = found | 1U << bit;
    uint32_t count = 0;
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kSample / kThreads; ++i) count += scores[i] >= next ? 1U : 0U;
    count = __reduce_add_sync(device::kAllLanes, count);
    if (threadIdx.x % kWarp == 0) atomicAdd(&counts[bit], count);
    __syncthreads();
    if (counts[bit] >= rank) found = next;
  }
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    open_state(state);
    state->high = rank == 0 ? kScoreLimit : found;
  } else {
    state->low = rank > kSample ? 0 : found;
  }
}
static_assert(kSample % kThreads == 0);

// Square root, rounded up. Integers: the same bracket everywhere.
uint64_t root(uint64_t value) {
  uint64_t result = 0;
  for (uint64_t bit = 1ULL << 31; bit != 0; bit >>= 1) {
    if ((result | bit) * (result | bit) < value) result |= bit;
  }
  return result + 1;
}

}  // namespace

void open_bracket(const Room& room, void* stream) {
  launch_kernel(open_bracket_kernel, 1, 1, 0, stream, room.state);
}

void sample(const TableLaunch& table, const Scores& from, const Room& room, void* stream) {
  launch_kernel(sample_kernel, kSample / kThreads, kThreads, 0, stream, table, from, room.elements,
                room.sample);
}

// The rank of the k-th score in the sample has a standard deviation of at most
// sqrt(kSample p (1 - p)): six of them on either side.
void bracket(uint64_t k, const Room& room, void* stream) {
  const uint64_t expected = k * kSample / room.elements;
  const uint64_t margin = root(36 * (expected + 1) * (kSample - expected) / kSample) + 12;
  const auto high_rank = static_cast<uint32_t>(expected > margin ? expected - margin : 0);
  const auto low_rank = static_cast<uint32_t>(expected + margin + 1);
  launch_kernel(bracket_kernel, 2, kThreads, 0, stream, room.sample, room.state, high_rank,
                low_rank);
}

}  // namespace asyncmesh::kernels::selection
