// partition_pack, index_pack and quantise: rows of values that are gathered, encoded and written.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mixed_rows.h"
#include "kernels/cuda/pack.h"

namespace asyncmesh::kernels {
namespace {

__global__ void __launch_bounds__(kThreads)
    pack_subset_kernel(const __grid_constant__ SubsetLaunch launch,
                       const __grid_constant__ device::PackOutputs out) {
  device::pack_rows(device::SubsetSource(launch), out);
}

__global__ void __launch_bounds__(kThreads)
    pack_indices_kernel(const __grid_constant__ TableLaunch table, const uint32_t* indices,
                        const __grid_constant__ device::PackOutputs out) {
  device::pack_rows(device::IndexSource(table, indices, out.count), out);
}

// Each row in one piece of one tensor: no row is of two launches.
bool rows_whole(const ParameterTable& table, const Subset& subset) {
  if (subset.granularity % kScaled != 0) return false;
  for (uint32_t i = 0; i < table.size; ++i) {
    if (table.tensors[i].count % kScaled != 0) return false;
  }
  return true;
}

void pack(SubsetLaunches& launches, const device::PackOutputs& out, void* stream) {
  do {
    const SubsetLaunch& launch = launches.launch();
    const uint64_t values = launch.end_position - launch.begin_position;
    launch_kernel(pack_subset_kernel, groups_for(values + kGroup, kGroupValues), kThreads, 0,
                  stream, launch, out);
  } while (launches.next());
}

}  // namespace

void cuda_partition_pack(const ParameterTable& table, const Subset& subset, const Wire& wire,
                         float* snapshot, std::byte* encoded, const Execution& on) {
  SubsetLaunches launches(table, subset, nullptr);
  if (!launches.next()) return;
  device::PackOutputs out;
  out.wire = wire;
  out.count = subset_elements(table, subset);
  out.snapshot = snapshot;
  out.encoded = encoded;
  const bool mixed = encoded != nullptr && scaled(wire.encoding) && !launches.is_only_one() &&
                     !rows_whole(table, subset);
  if (!mixed) return pack(launches, out, on.stream);
  if (snapshot == nullptr) return pack_mixed(table, subset, out, on.stream);
  out.encoded = nullptr;
  pack(launches, out, on.stream);
  cuda_quantise(snapshot, out.count, wire, 0, encoded, on);
}

void cuda_index_pack(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                     const Wire& wire, const Feedback& feedback, std::byte* encoded,
                     const Execution& on) {
  if (count == 0) return;
  device::PackOutputs out;
  out.wire = wire;
  out.count = count;
  out.encoded = encoded;
  out.reference = feedback.reference;
  if (scaled(wire.encoding) && !fits_one_launch(table)) {
    return pack_mixed(table, indices, out, on.stream);
  }
  TableLaunches launches(table, nullptr);
  while (launches.next()) {
    launch_kernel(pack_indices_kernel, groups_for(count + kGroup, kGroupValues), kThreads, 0,
                  on.stream, launches.launch(), indices, out);
  }
}

}  // namespace asyncmesh::kernels
