// The kernels over contiguous runs: average, nadamw, sum of squares, encode and decode.
#include <cmath>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"

namespace asyncmesh::kernels {
namespace {

constexpr uint32_t kPartialSums = kSumSlots - 1;
static_assert(kPartialSums == kThreads, "the last step adds one partial sum per thread");

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

__global__ void nadamw_kernel(float* w, const float* gradient, float* m, float* v, uint64_t count,
                              const NadamwFactors factors, float* mirror) {
  for (uint64_t i = first_element(); i < count; i += element_stride()) {
    nadamw_element(factors, w[i], gradient[i], m[i], v[i]);
    if (mirror != nullptr) mirror[i] = w[i];
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

uint32_t cuda_average(const std::byte* const* values, const float* weights, uint32_t members,
                      Encoding encoding, uint64_t count, float* mean, uint64_t* not_finite_out,
                      void* stream) {
  device::AverageArgs args = {};
  args.members = members < kMaxMembers ? members : kMaxMembers;
  args.encoding = encoding;
  args.count = count;
  args.mean = mean;
  uint32_t candidates = 0;
  for (uint32_t r = 0; r < args.members; ++r) {
    if (values[r] == nullptr || !(weights[r] > 0) || !std::isfinite(weights[r])) continue;
    args.values[r] = values[r];
    args.weights[r] = weights[r];
    ++candidates;
  }
  auto* not_finite = reinterpret_cast<unsigned long long*>(not_finite_out);
  launch_kernel(clear_kernel, 1, 1, 0, stream, not_finite);
  const uint32_t groups = groups_for(count, kThreads);
  if (groups == 0 || args.members == 0) return candidates;
  launch_kernel(find_not_finite_kernel, dim3(groups, args.members), kThreads, 0, stream, args,
                not_finite);
  launch_kernel(average_kernel, groups, kThreads, 0, stream, args, not_finite);
  return candidates;
}

void cuda_nadamw(float* w, const float* gradient, float* m, float* v, uint64_t count,
                 const NadamwArgs& args, float* mirror, void* stream) {
  if (count == 0) return;
  launch_kernel(nadamw_kernel, groups_for(count, kThreads), kThreads, 0, stream, w, gradient, m, v,
                count, NadamwFactors(args), mirror);
}

void cuda_sum_of_squares(const float* values, uint64_t count, double* sums, void* stream) {
  launch_kernel(partial_squares_kernel, kPartialSums, kThreads, 0, stream, values, count, sums + 1);
  launch_kernel(add_partials_kernel, 1, kPartialSums, 0, stream, sums + 1, sums);
}

void cuda_encode(const float* values, uint64_t count, Encoding encoding, std::byte* out,
                 void* stream) {
  if (count == 0) return;
  launch_kernel(encode_kernel, groups_for(count, kThreads), kThreads, 0, stream, values, count,
                encoding, out);
}

void cuda_decode(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                 void* stream) {
  if (count == 0) return;
  launch_kernel(decode_kernel, groups_for(count, kThreads), kThreads, 0, stream, values, count,
                encoding, out);
}

}  // namespace asyncmesh::kernels
