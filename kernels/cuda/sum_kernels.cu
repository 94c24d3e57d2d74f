// sum_of_squares and compare.
//
// sums[0, 4) are the results, from sums[4] on the partial sums of each thread block, by kind. Which
// thread adds which values depends on the shapes only, never on the device or on alignment.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sums.h"

namespace asyncmesh::kernels {
namespace {

using device::sum_groups;
using device::Values;

constexpr uint32_t kResults = 4;
static_assert(kResults + kResults * sum_groups(kResults) <= kSumSlots);
static_assert(kResults + sum_groups(1) <= kSumSlots);

__global__ void clear_sums_kernel(double* sums) {
  for (uint32_t i = threadIdx.x; i < kSumSlots; i += blockDim.x) sums[i] = 0;
}

// Thread block `kind` adds the partial sums of its kind.
template <uint32_t kKinds>
__global__ void __launch_bounds__(kThreads) total_kernel(double* sums) {
  const double* const partial = sums + kResults + blockIdx.x * sum_groups(kKinds);
  double sum[1] = {0};
  for (uint32_t i = threadIdx.x; i < sum_groups(kKinds); i += kThreads) sum[0] += partial[i];
  device::add_group_sums<1>(sum, sums);
}

constexpr uint32_t kTogether = 4;  // quads that are read before the first is added

// The quad from `i` on, 0 where there is none.
__device__ Values<4> quad_at(const float* values, uint64_t count, uint64_t i) {
  Values<4> quad;
  ASYNCMESH_UNROLLED
  for (uint32_t j = 0; j < 4; ++j) quad.at[j] = i + j < count ? values[i + j] : 0;
  return quad;
}

__global__ void __launch_bounds__(kThreads)
    squares_kernel(const float* values, uint64_t count, double* sums) {
  if (uint64_t{blockIdx.x} * kThreads * 4 >= count) return;  // the whole group
  const bool aligned = device::quads_aligned(values);
  double sum[1] = {0};
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x * 4;
  uint64_t i = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  for (; i < count; i += kTogether * stride) {
    Values<4> quads[kTogether];
    const bool whole = aligned && i + (kTogether - 1) * stride + 4 <= count;
    ASYNCMESH_UNROLLED
    for (uint32_t k = 0; k < kTogether; ++k) {
      const uint64_t at = i + k * stride;
      quads[k] = whole ? device::read<4>(values, at) : quad_at(values, count, at);
    }
    ASYNCMESH_UNROLLED
    for (uint32_t k = 0; k < kTogether; ++k) {
      ASYNCMESH_UNROLLED
      for (uint32_t j = 0; j < 4; ++j) {
        const auto value = static_cast<double>(quads[k].at[j]);
        sum[0] += value * value;
      }
    }
  }
  device::add_group_sums<1>(sum, sums + kResults);
}

struct CompareBody {
  static constexpr uint32_t kQuads = device::kLaneValues / 4;
  Encoding storage, other_storage;
  double sums[kResults];

  __device__ bool aligned(const LaunchPlace& place) const {
    return device::aligned(device::in_global(place.data), place, storage) &&
           device::aligned(device::in_global(place.other), place, other_storage);
  }
  // All quads of a lane are read before the first is decoded: the few thread blocks need many reads
  // under way.
  __device__ void row(const LaunchPlace& place, uint32_t lane) {
    device::Raw<4> first[kQuads], second[kQuads];
    ASYNCMESH_UNROLLED
    for (uint32_t k = 0; k < kQuads; ++k) {
      const uint64_t at = place.offset + device::lane_offset(lane, 4 * k);
      first[k] = device::read_raw<4>(device::in_global(place.data), at, storage);
      second[k] = device::read_raw<4>(device::in_global(place.other), at, other_storage);
    }
    ASYNCMESH_UNROLLED
    for (uint32_t k = 0; k < kQuads; ++k) add(first[k], second[k]);
  }
  template <int N>
  __device__ void run(const LaunchPlace& place, uint64_t) {
    add(device::read_raw<N>(device::in_global(place.data), place.offset, storage),
        device::read_raw<N>(device::in_global(place.other), place.offset, other_storage));
  }

  template <int N>
  __device__ void add(const device::Raw<N>& one, const device::Raw<N>& other) {
    const Values<N> first = device::decode<N>(one, storage);
    const Values<N> second = device::decode<N>(other, other_storage);
    for (int j = 0; j < N; ++j) {
      const auto x = static_cast<double>(first.at[j]), y = static_cast<double>(second.at[j]);
      sums[0] += (x - y) * (x - y);
      sums[1] += x * y;
      sums[2] += x * x;
      sums[3] += y * y;
    }
  }
};

__global__ void __launch_bounds__(kThreads, kFewGroups)
    compare_kernel(const __grid_constant__ TableLaunch table, double* sums) {
  const uint64_t rows = table.end_element / kScaled - table.begin_element / kScaled + 1;
  if (uint64_t{blockIdx.x} * device::kRowsPerGroup >= rows) return;  // the whole group
  CompareBody body = {table.storage, table.other_storage, {0, 0, 0, 0}};
  device::visit_rows(device::TableSource(table), body);
  device::add_group_sums<kResults>(body.sums, sums + kResults);
}

void clear(double* sums, void* stream) {
  launch_kernel(clear_sums_kernel, 1, kThreads, 0, stream, sums);
}

}  // namespace

void cuda_sum_of_squares(const float* values, uint64_t count, double* sums, const Execution& on) {
  clear(sums, on.stream);
  launch_kernel(squares_kernel, sum_groups(1), kThreads, 0, on.stream, values, count, sums);
  launch_kernel(total_kernel<1>, 1, kThreads, 0, on.stream, sums);
}

void cuda_compare(const ParameterTable& first, const ParameterTable& second, double* sums,
                  const Execution& on) {
  clear(sums, on.stream);
  TableLaunches launches(first, &second);
  while (launches.next()) {
    launch_kernel(compare_kernel, sum_groups(kResults), kThreads, 0, on.stream, launches.launch(),
                  sums);
  }
  launch_kernel(total_kernel<kResults>, kResults, kThreads, 0, on.stream, sums);
}

}  // namespace asyncmesh::kernels
