// partition_unpack, index_unpack and index_accumulate: encoded values on their way to a table.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"

namespace asyncmesh::kernels {
namespace {

using device::Values;

struct UnpackBody {
  Encoding storage;
  Encoding encoding;
  const std::byte* encoded;

  __device__ bool aligned(const LaunchPlace& place) const {
    return device::aligned(device::in_global(place.data), place, storage) &&
           device::quads_aligned(encoded, encoding);
  }
  template <int N>
  __device__ void run(const LaunchPlace& place, uint64_t position) {
    device::write<N>(device::in_global(place.data), place.offset, storage,
                     device::read<N>(encoded, position, encoding));
  }
};

struct AccumulateBody {
  Encoding storage;
  Encoding encoding;
  const std::byte* encoded;
  float weight;

  __device__ bool aligned(const LaunchPlace&) const { return false; }
  template <int N>
  __device__ void run(const LaunchPlace& place, uint64_t position) {
    const Values<1> value = device::read<1>(encoded, position, encoding);
    Values<1> w = device::read<1>(device::in_global(place.data), place.offset, storage);
    w.at[0] += weight * value.at[0];
    device::write<1>(device::in_global(place.data), place.offset, storage, w);
  }
};

__global__ void __launch_bounds__(kThreads)
    unpack_subset_kernel(const __grid_constant__ SubsetLaunch launch, UnpackBody body) {
  device::visit_rows(device::SubsetSource(launch), body);
}

template <typename Body>
__global__ void __launch_bounds__(kThreads)
    unpack_indices_kernel(const __grid_constant__ TableLaunch table, const uint32_t* indices,
                          uint64_t count, Body body) {
  device::visit_rows(device::IndexSource(table, indices, count), body);
}

template <typename Body>
void unpack_indices(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                    const Body& body, void* stream) {
  if (count == 0) return;
  TableLaunches launches(table, nullptr);
  while (launches.next()) {
    launch_kernel(unpack_indices_kernel<Body>, groups_for(count, kGroupValues), kThreads, 0, stream,
                  launches.launch(), indices, count, body);
  }
}

}  // namespace

void cuda_partition_unpack(const ParameterTable& table, const Subset& subset, Encoding encoding,
                           const std::byte* encoded, const Execution& on) {
  SubsetLaunches launches(table, subset, nullptr);
  while (launches.next()) {
    const SubsetLaunch& launch = launches.launch();
    launch_kernel(unpack_subset_kernel,
                  groups_for(launch.end_position - launch.begin_position + kScaled, kGroupValues),
                  kThreads, 0, on.stream, launch, UnpackBody{table.storage, encoding, encoded});
  }
}

void cuda_index_unpack(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                       Encoding encoding, const std::byte* encoded, const Execution& on) {
  unpack_indices(table, indices, count, UnpackBody{table.storage, encoding, encoded}, on.stream);
}

void cuda_index_accumulate(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                           Encoding encoding, const std::byte* encoded, float weight,
                           const Execution& on) {
  unpack_indices(table, indices, count, AccumulateBody{table.storage, encoding, encoded, weight},
                 on.stream);
}

}  // namespace asyncmesh::kernels
