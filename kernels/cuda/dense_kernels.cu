// The kernels over contiguous runs: average, nadamw, sum of squares, encode and decode.
#include <cmath>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"

namespace asyncmesh::kernels {
namespace {

constexpr uint32_t kPartialSums = kThreads;
static_assert(kPartialSums < kSumSlots, "the last step adds one partial sum per thread");

__device__ uint64_t first_element() {
  return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ uint64_t element_stride() { return static_cast<uint64_t>(gridDim.x) * blockDim.x; }

__global__ void clear_kernel(unsigned long long* word) { *word = 0; }

// blockIdx.y is the member.
__global__ void find_not_finite_kernel(const __grid_constant__ device::AverageArgs args,
                                       unsigned long long* not_finite) {
  const uint32_t member = blockIdx.y;
  if (args.weights[member] == 0) return;
  int bad = 0;
  for (uint64_t i = first_element(); i < args.count; i += element_stride()) {
    bad |= !device::finite(device::read_encoded(args.values[member], i, args.encoding));
  }
  if (__syncthreads_or(bad) != 0 && threadIdx.x == 0) atomicOr(not_finite, 1ULL << member);
}

__global__ void average_kernel(const __grid_constant__ device::AverageArgs args,
                               const unsigned long long* not_finite) {
  const device::AverageSum sum(args, *not_finite);
  if (!sum.usable) return;
  for (uint64_t i = first_element(); i < args.count; i += element_stride()) {
    device::average(args, sum, i);
  }
}

__global__ void nadamw_kernel(const NadamwArrays arrays, uint64_t count,
                              const NadamwFactors factors) {
  for (uint64_t i = first_element(); i < count; i += element_stride()) {
    float w = device::read_stored(arrays.w, i, arrays.storage);
    const float gradient = device::read_stored(arrays.gradient, i, arrays.storage);
    nadamw_element(factors, w, gradient, arrays.m[i], arrays.v[i]);
    device::write_stored(arrays.w, i, arrays.storage, w);
    if (arrays.mirror != nullptr) device::write_stored(arrays.mirror, i, arrays.mirror_storage, w);
  }
}

// The sum over the threads of a group, in thread 0.
__device__ double group_sum(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  for (uint32_t half = kThreads / 2; half != 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

// The number of groups is fixed, so that the order of additions depends on `count` only.
__global__ void partial_squares_kernel(const float* values, uint64_t count, double* partial) {
  double sum = 0;
  for (uint64_t i = first_element(); i < count; i += element_stride()) {
    const auto value = static_cast<double>(values[i]);
    sum += value * value;
  }
  sum = group_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void add_partials_kernel(const double* partial, double* total) {
  const double sum = group_sum(partial[threadIdx.x]);
  if (threadIdx.x == 0) *total = sum;
}

__global__ void encode_kernel(const float* values, uint64_t count, Encoding encoding,
                              std::byte* out) {
  for (uint64_t i = first_element(); i < count; i += element_stride()) {
    device::write_encoded(out, i, encoding, values[i]);
  }
}

__global__ void decode_kernel(const std::byte* values, uint64_t count, Encoding encoding,
                              float* out) {
  for (uint64_t i = first_element(); i < count; i += element_stride()) {
    out[i] = device::read_encoded(values, i, encoding);
  }
}

}  // namespace

uint32_t cuda_average(const Contributions& from, uint64_t count, float* mean,
                      uint64_t* not_finite_out, const Execution& on) {
  device::AverageArgs args = {};
  args.members = from.members < kMaxMembers ? from.members : kMaxMembers;
  args.encoding = from.encoding;
  args.count = count;
  args.mean = mean;
  uint32_t candidates = 0;
  for (uint32_t r = 0; r < args.members; ++r) {
    const float weight = from.weights[r];
    if (from.values[r] == nullptr || !(weight > 0) || !std::isfinite(weight)) continue;
    args.values[r] = from.values[r];
    args.weights[r] = weight;
    ++candidates;
  }
  auto* not_finite = reinterpret_cast<unsigned long long*>(not_finite_out);
  launch_kernel(clear_kernel, 1, 1, 0, on.stream, not_finite);
  const uint32_t groups = groups_for(count, kThreads);
  if (groups == 0 || args.members == 0) return candidates;
  launch_kernel(find_not_finite_kernel, dim3(groups, args.members), kThreads, 0, on.stream, args,
                not_finite);
  launch_kernel(average_kernel, groups, kThreads, 0, on.stream, args, not_finite);
  return candidates;
}

void cuda_nadamw(const NadamwArrays& arrays, uint64_t count, const NadamwArgs& args,
                 const Execution& on) {
  if (count == 0) return;
  launch_kernel(nadamw_kernel, groups_for(count, kThreads), kThreads, 0, on.stream, arrays, count,
                NadamwFactors(args));
}

void cuda_sum_of_squares(const float* values, uint64_t count, double* sums, const Execution& on) {
  launch_kernel(partial_squares_kernel, kPartialSums, kThreads, 0, on.stream, values, count,
                sums + 1);
  launch_kernel(add_partials_kernel, 1, kPartialSums, 0, on.stream, sums + 1, sums);
}

void cuda_quantise(const float* values, uint64_t count, const Wire& wire, uint64_t /*first*/,
                   std::byte* out, const Execution& on) {
  if (count == 0) return;
  launch_kernel(encode_kernel, groups_for(count, kThreads), kThreads, 0, on.stream, values, count,
                wire.encoding, out);
}

void cuda_dequantise(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                     const Execution& on) {
  if (count == 0) return;
  launch_kernel(decode_kernel, groups_for(count, kThreads), kThreads, 0, on.stream, values, count,
                encoding, out);
}

}  // namespace asyncmesh::kernels
