// apply: a mean comes back to the subset.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/element.h"

namespace asyncmesh::kernels {
namespace {

using device::Values;

// Leaves `visited` alone: the bits are set by a launch that follows, when no lane reads them.
struct ApplyBody {
  Rule rule;
  Encoding storage, mirror_storage, encoding;
  ApplyFactors first, later;
  const float* snapshot;
  const float* mean;
  const std::byte* own;     // null: lossless
  float* ema;               // null unless kEma
  const uint64_t* visited;  // null unless kEma

  __device__ bool aligned(const LaunchPlace& place) const {
    return device::aligned(place.data, place, storage) &&
           (place.other == nullptr || device::aligned(place.other, place, mirror_storage)) &&
           (ema == nullptr || device::quads_aligned(ema + place.element)) &&
           device::quads_aligned(snapshot) && device::quads_aligned(mean) &&
           device::quads_aligned(own, encoding);
  }

  template <int N>
  __device__ void run(const LaunchPlace& place, uint64_t position) {
    const device::Raw<N> stored =
        device::read_raw<N>(device::in_global(place.data), place.offset, storage);
    const Values<N> before = device::read<N>(snapshot, position);
    Values<N> next = device::read<N>(mean, position);
    device::Raw<N> sent = {};
    if (own != nullptr) sent = device::read_raw<N>(own, position, encoding);
    Values<N> e = {};
    if (ema != nullptr) e = device::read<N>(ema, place.element);
    const bool again =
        visited != nullptr && (visited[place.block / 64] >> (place.block % 64) & 1) != 0;
    const Values<N> w = device::decode<N>(stored, storage);
    if (own != nullptr) {
      const Values<N> decoded = device::decode<N>(sent, encoding);
      for (int j = 0; j < N; ++j) {
        next.at[j] = lossy_target(before.at[j], next.at[j], decoded.at[j]);
      }
    }
    for (int j = 0; j < N; ++j) correct(again, w.at[j] - before.at[j], e.at[j], next.at[j]);
    if (ema != nullptr) device::write<N>(ema, place.element, e);
    device::write<N>(device::in_global(place.data), place.offset, storage, next);
    if (place.other == nullptr) return;
    for (int j = 0; j < N; ++j) next.at[j] = device::rounded(storage, next.at[j]);
    device::write<N>(device::in_global(place.other), place.offset, mirror_storage, next);
  }

  __device__ void correct(bool again, float drift, float& e, float& next) const {
    if (rule == Rule::kDelta) {
      next = corrected(first, next, drift);
    } else if (rule == Rule::kEma) {
      e = again ? ema_next(later, e, drift) : ema_first(first, drift);
      next = corrected(first, next, e);  // both have the same scale
    }
  }
};

__global__ void __launch_bounds__(kThreads, kFewGroups)
    apply_kernel(const __grid_constant__ SubsetLaunch launch,
                 const __grid_constant__ ApplyBody body) {
  ApplyBody copy = body;
  device::visit_rows(device::SubsetSource(launch), copy);
}

__global__ void __launch_bounds__(kThreads)
    mark_visited_kernel(uint64_t* visited, const __grid_constant__ Permutation permutation,
                        uint32_t part, uint32_t parts, uint64_t blocks) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint64_t index = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; index < blocks; index += stride) {
    const uint64_t block = permutation.inverse(part + index * parts);
    atomicOr(reinterpret_cast<unsigned long long*>(visited + block / 64), 1ULL << (block % 64));
  }
}

}  // namespace

void cuda_apply(const ParameterTable& table, const Subset& subset, const ApplyArgs& args,
                const ApplyArrays& arrays, const Execution& on) {
  const bool has_ema = args.rule == Rule::kEma;
  const ApplyFactors later = {args.momentum, 1.0F - args.momentum, args.scale};
  const ApplyFactors first = {0, args.first_visit_full ? 1.0F : later.gain, args.scale};
  const ApplyBody body = {args.rule,
                          table.storage,
                          arrays.mirror == nullptr ? Encoding::kFloat32 : arrays.mirror->storage,
                          arrays.encoding,
                          first,
                          later,
                          arrays.snapshot,
                          arrays.mean,
                          arrays.own,
                          has_ema ? arrays.ema : nullptr,
                          has_ema ? arrays.visited : nullptr};
  SubsetLaunches launches(table, subset, arrays.mirror);
  while (launches.next()) {
    const SubsetLaunch& launch = launches.launch();
    launch_kernel(apply_kernel,
                  groups_for(launch.end_position - launch.begin_position + kScaled, kGroupValues),
                  kThreads, 0, on.stream, launch, body);
  }
  const uint64_t blocks = subset_blocks(subset);
  if (!has_ema || blocks == 0) return;
  launch_kernel(mark_visited_kernel, groups_for(blocks, kThreads), kThreads, 0, on.stream,
                arrays.visited, Permutation(subset.key, subset.blocks), subset.part, subset.parts,
                blocks);
}

}  // namespace asyncmesh::kernels
