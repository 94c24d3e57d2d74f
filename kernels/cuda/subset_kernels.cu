// pack and apply: one warp per block of parameters, so that a block of 64 is two coalesced
// accesses.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"

namespace asyncmesh::kernels {
namespace {

__device__ uint64_t first_index(const SubsetLaunch& launch) {
  return launch.begin_index +
         (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
}

__device__ uint64_t index_stride() {
  return static_cast<uint64_t>(gridDim.x) * blockDim.x / kLanes;
}

__global__ void pack_kernel(const __grid_constant__ SubsetLaunch launch,
                            const device::PackOutputs out) {
  const uint32_t lane = threadIdx.x % kLanes;
  for (uint64_t index = first_index(launch); index < launch.end_index; index += index_stride()) {
    device::pack(launch, out, index, lane, kLanes);
  }
}

__global__ void apply_kernel(const __grid_constant__ SubsetLaunch launch,
                             const __grid_constant__ device::ApplyInputs in) {
  const uint32_t lane = threadIdx.x % kLanes;
  for (uint64_t index = first_index(launch); index < launch.end_index; index += index_stride()) {
    device::apply(launch, in, index, lane, kLanes);
  }
}

__global__ void mark_visited_kernel(const __grid_constant__ SubsetLaunch launch,
                                    uint64_t* visited) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint64_t index =
      launch.begin_index + static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; index < launch.end_index; index += stride) {
    LaunchPlace place;
    if (!launch.locate(index, place)) continue;
    atomicOr(reinterpret_cast<unsigned long long*>(visited + place.block / 64),
             1ULL << (place.block % 64));
  }
}

uint32_t groups_of(const SubsetLaunch& launch) {
  return groups_for(launch.end_index - launch.begin_index, kThreads / kLanes);
}

}  // namespace

void cuda_partition_pack(const ParameterTable& table, const Subset& subset, const Wire& wire,
                         float* snapshot, std::byte* encoded, const Execution& on) {
  const device::PackOutputs out = {table.storage, wire.encoding, snapshot, encoded};
  SubsetLaunches launches(table, subset, nullptr);
  while (launches.next()) {
    const SubsetLaunch& launch = launches.launch();
    launch_kernel(pack_kernel, groups_of(launch), kThreads, 0, on.stream, launch, out);
  }
}

void cuda_apply(const ParameterTable& table, const Subset& subset, const ApplyArgs& args,
                const ApplyArrays& arrays, const Execution& on) {
  const ParameterTable* const mirror = arrays.mirror;
  const bool has_ema = args.rule == Rule::kEma;
  const ApplyFactors later = {args.momentum, 1.0F - args.momentum, args.scale};
  const ApplyFactors first = {0, args.first_visit_full ? 1.0F : later.gain, args.scale};
  const device::ApplyInputs in = {args.rule,
                                  table.storage,
                                  mirror == nullptr ? Encoding::kFloat32 : mirror->storage,
                                  arrays.encoding,
                                  first,
                                  later,
                                  arrays.snapshot,
                                  arrays.mean,
                                  arrays.own,
                                  has_ema ? arrays.ema : nullptr,
                                  has_ema ? arrays.visited : nullptr};
  SubsetLaunches launches(table, subset, mirror);
  while (launches.next()) {
    const SubsetLaunch& launch = launches.launch();
    launch_kernel(apply_kernel, groups_of(launch), kThreads, 0, on.stream, launch, in);
    if (!has_ema) continue;
    launch_kernel(mark_visited_kernel, groups_of(launch), kThreads, 0, on.stream, launch,
                  arrays.visited);
  }
}

}  // namespace asyncmesh::kernels
