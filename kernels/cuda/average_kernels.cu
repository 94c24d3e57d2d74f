// average: one pass that supposes that everything is finite and finds what is not, and a second one
// for when that was wrong.
#include <cmath>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/dense.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quads.h"

namespace asyncmesh::kernels {
namespace {

using device::Raw;
using device::Values;

// The contributions that may count.
struct AverageArgs {
  const std::byte* values[kMaxMembers];
  float weights[kMaxMembers];
  uint8_t members[kMaxMembers];  // their numbers
  uint32_t size;
  Encoding encoding;
  float* mean;
};

// Of those that `left_out` does not name; 0 below two.
__device__ float reciprocal_weight(const AverageArgs& args, uint64_t left_out) {
  double weight_sum = 0;
  uint32_t averaged = 0;
  for (uint32_t r = 0; r < args.size; ++r) {
    if ((left_out >> args.members[r] & 1) != 0) continue;
    weight_sum += static_cast<double>(args.weights[r]);
    ++averaged;
  }
  return averaged >= 2 ? static_cast<float>(1.0 / weight_sum) : 0.0F;
}

constexpr uint32_t kTogether = 4;  // contributions that are read before the first is decoded

struct AverageBody {
  const AverageArgs& args;
  uint64_t left_out;
  float reciprocal;
  unsigned long long not_finite = 0;

  template <int N>
  __device__ void run(uint64_t i) {
    Values<N> total = {};
    bool first = true;
    for (uint32_t r = 0; r < args.size; r += kTogether) {
      Raw<N> raw[kTogether];
      ASYNCMESH_UNROLLED
      for (uint32_t j = 0; j < kTogether; ++j) {
        raw[j] = {};
        if (r + j < args.size) raw[j] = device::read_raw<N>(args.values[r + j], i, args.encoding);
      }
      ASYNCMESH_UNROLLED
      for (uint32_t j = 0; j < kTogether; ++j) {
        if (r + j >= args.size || (left_out >> args.members[r + j] & 1) != 0) continue;
        add(r + j, raw[j], first, total);
        first = false;
      }
    }
    if (reciprocal == 0) return;
    for (int j = 0; j < N; ++j) total.at[j] *= reciprocal;
    device::write<N>(args.mean, i, total);
  }

  template <int N>
  __device__ void add(uint32_t r, const Raw<N>& raw, bool first, Values<N>& total) {
    const Values<N> values = device::decode<N>(raw, args.encoding);
    if (!all_finite(raw, values)) not_finite |= 1ULL << args.members[r];
    for (int j = 0; j < N; ++j) {
      const float term = args.weights[r] * values.at[j];
      total.at[j] = first ? term : total.at[j] + term;
    }
  }

  template <int N>
  __device__ bool all_finite(const Raw<N>& raw, const Values<N>& values) const {
    if (scaled(args.encoding)) return finite_scale(raw.word[1], args.encoding);
    bool all = true;
    for (int j = 0; j < N; ++j) all &= (bits_of(values.at[j]) & kInfinityBits) != kInfinityBits;
    return all;
  }
};

__global__ void clear_word_kernel(unsigned long long* word) { *word = 0; }

__global__ void __launch_bounds__(kThreads)
    average_kernel(const __grid_constant__ AverageArgs args, const device::Dense run,
                   unsigned long long* not_finite) {
  AverageBody body = {args, 0, reciprocal_weight(args, 0)};
  device::for_elements(run, body);
  if (body.not_finite != 0) atomicOr(not_finite, body.not_finite);
}

// Returns at once where the first pass was right.
__global__ void __launch_bounds__(kThreads)
    average_again_kernel(const __grid_constant__ AverageArgs args, const device::Dense run,
                         const unsigned long long* not_finite) {
  const uint64_t left_out = *not_finite;
  if (left_out == 0) return;
  AverageBody body = {args, left_out, reciprocal_weight(args, left_out)};
  if (body.reciprocal != 0) device::for_elements(run, body);
}

}  // namespace

uint32_t cuda_average(const Contributions& from, uint64_t count, float* mean,
                      uint64_t* not_finite_out, const Execution& on) {
  AverageArgs args = {};
  args.encoding = from.encoding;
  args.mean = mean;
  DenseRun run(count);
  run.add(mean);
  for (uint32_t r = 0; r < from.members && r < kMaxMembers; ++r) {
    const float weight = from.weights[r];
    if (from.values[r] == nullptr || !(weight > 0) || !std::isfinite(weight)) continue;
    args.values[args.size] = from.values[r];
    args.weights[args.size] = weight;
    args.members[args.size++] = static_cast<uint8_t>(r);
    run.add(from.values[r], from.encoding);
  }
  auto* const not_finite = reinterpret_cast<unsigned long long*>(not_finite_out);
  launch_kernel(clear_word_kernel, 1, 1, 0, on.stream, not_finite);
  if (count == 0 || args.size == 0) return args.size;
  launch_kernel(average_kernel, run.groups(), kThreads, 0, on.stream, args, device::dense(run),
                not_finite);
  launch_kernel(average_again_kernel, run.groups(), kThreads, 0, on.stream, args,
                device::dense(run), not_finite);
  return args.size;
}

}  // namespace asyncmesh::kernels
