#include "kernels/cuda/launch.h"
#include "kernels/cuda/mixed_rows.h"
#include "kernels/cuda/pack.h"

namespace asyncmesh::kernels {
namespace {

enum class Step : uint8_t { kLargest, kAllCodes, kEvenCodes, kOddCodes };

template <typename Source>
__device__ void largest_row(const Source& source, const device::PackOutputs& out, uint64_t row,
                            uint32_t lane) {
  float values[device::kLaneValues];
  const uint32_t present = device::gather(source, row * kScaled, lane, values);
  device::subtract_reference(source, out, row, lane, present, values);
  const uint32_t largest = device::largest_of_row(device::largest_of_lane(values));
  if (lane == 0 && largest != 0) atomicMax(device::scale_slot(out, row), largest);
}

// Two codes of int4 that share a byte may be of two launches: all even ones before any odd one.
template <typename Source>
__device__ void codes_row(const Source& source, const device::PackOutputs& out, Step step,
                          uint64_t row, uint32_t lane) {
  float values[device::kLaneValues];
  const uint32_t present = device::gather(source, row * kScaled, lane, values);
  if (present == 0) return;
  device::subtract_reference(source, out, row, lane, present, values);
  const BlockScale scale = block_scale(*device::scale_slot(out, row), out.wire.encoding);
  const device::LaneRandom random(out, row, lane);
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < device::kLaneValues; ++i) {
    if ((present >> i & 1) == 0) continue;
    const uint64_t position = row * kScaled + device::lane_offset(lane, i);
    const bool odd = i % 2 != 0;
    if (step == (odd ? Step::kEvenCodes : Step::kOddCodes)) continue;
    const uint32_t word = device::wire_word(out.wire, scale, values[i], random.bits(i));
    std::byte& code = out.encoded[device::code_offset(position, out.wire.encoding)];
    if (step == Step::kOddCodes) {
      code |= static_cast<std::byte>(word << 4);
    } else {
      code = static_cast<std::byte>(word);
    }
    const uint32_t words[4] = {word, 0, 0, 0};
    device::advance_reference(source, out, position, scale, words, 1);
  }
}

template <typename Source>
__device__ void mixed_rows(const Source& source, const device::PackOutputs& out, Step step) {
  device::for_rows(source.begin() / kScaled, (source.end() + kScaled - 1) / kScaled,
                   [&](uint64_t row, uint32_t lane) {
                     if (step == Step::kLargest) {
                       largest_row(source, out, row, lane);
                     } else {
                       codes_row(source, out, step, row, lane);
                     }
                   });
}

__global__ void __launch_bounds__(kThreads)
    mixed_subset_kernel(const __grid_constant__ SubsetLaunch launch,
                        const __grid_constant__ device::PackOutputs out, Step step) {
  mixed_rows(device::SubsetSource(launch), out, step);
}

__global__ void __launch_bounds__(kThreads)
    mixed_indices_kernel(const __grid_constant__ TableLaunch table, const uint32_t* indices,
                         const __grid_constant__ device::PackOutputs out, Step step) {
  mixed_rows(device::IndexSource(table, indices, out.count), out, step);
}

__device__ uint64_t first_row() {
  return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__global__ void clear_scales_kernel(const __grid_constant__ device::PackOutputs out) {
  const uint64_t rows = device::rows_of(out);
  for (uint64_t row = first_row(); row < rows; row += uint64_t{gridDim.x} * blockDim.x) {
    *device::scale_slot(out, row) = 0;
  }
}

__global__ void finish_scales_kernel(const __grid_constant__ device::PackOutputs out) {
  const uint64_t rows = device::rows_of(out);
  for (uint64_t row = first_row(); row < rows; row += uint64_t{gridDim.x} * blockDim.x) {
    uint32_t* const slot = device::scale_slot(out, row);
    *slot = block_scale(*slot, out.wire.encoding).scale;
  }
}

// pass(step) launches one step over the whole table.
template <typename Pass>
void all_steps(const device::PackOutputs& out, void* stream, const Pass& pass) {
  const uint32_t groups = groups_for(out.count / kScaled + 16, kThreads);
  launch_kernel(clear_scales_kernel, groups, kThreads, 0, stream, out);
  pass(Step::kLargest);
  if (out.wire.encoding == Encoding::kInt4) {
    pass(Step::kEvenCodes);
    pass(Step::kOddCodes);
  } else {
    pass(Step::kAllCodes);
  }
  launch_kernel(finish_scales_kernel, groups, kThreads, 0, stream, out);
}

}  // namespace

void pack_mixed(const ParameterTable& table, const Subset& subset, const device::PackOutputs& out,
                void* stream) {
  all_steps(out, stream, [&](Step step) {
    SubsetLaunches launches(table, subset, nullptr);
    while (launches.next()) {
      const SubsetLaunch& launch = launches.launch();
      launch_kernel(mixed_subset_kernel,
                    groups_for(launch.end_position - launch.begin_position + kScaled, kGroupValues),
                    kThreads, 0, stream, launch, out, step);
    }
  });
}

void pack_mixed(const ParameterTable& table, const uint32_t* indices,
                const device::PackOutputs& out, void* stream) {
  all_steps(out, stream, [&](Step step) {
    TableLaunches launches(table, nullptr);
    while (launches.next()) {
      launch_kernel(mixed_indices_kernel, groups_for(out.count, kGroupValues), kThreads, 0, stream,
                    launches.launch(), indices, out, step);
    }
  });
}

}  // namespace asyncmesh::kernels
