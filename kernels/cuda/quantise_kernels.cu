// quantise and dequantise: runs of values in memory.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pack.h"

namespace asyncmesh::kernels {
namespace {

// A run as a table of one tensor.
struct Run {
  Encoding storage;
  LaunchTensor tensor;
};

class RunSource {
 public:
  static constexpr bool kScattered = false;
  __device__ explicit RunSource(const Run& run) : run_(run) {}
  __device__ uint64_t begin() const { return 0; }
  __device__ uint64_t end() const { return run_.tensor.count; }
  __device__ const Run& table() const { return run_; }
  __device__ LaunchPlace find(uint64_t position) const {
    return {run_.tensor.data, nullptr, position, position, 0, run_.tensor.count - position};
  }

 private:
  const Run& run_;
};

__global__ void __launch_bounds__(kThreads)
    quantise_kernel(const __grid_constant__ Run run,
                    const __grid_constant__ device::PackOutputs out) {
  device::pack_rows(RunSource(run), out);
}

struct DequantiseBody {
  const std::byte* values;
  Encoding encoding;
  float* out;

  __device__ bool aligned(const LaunchPlace&) const {
    return device::quads_aligned(values, encoding) && device::quads_aligned(out);
  }
  template <int N>
  __device__ void run(const LaunchPlace&, uint64_t position) {
    device::write<N>(out, position, device::read<N>(values, position, encoding));
  }
};

__global__ void __launch_bounds__(kThreads)
    dequantise_kernel(const __grid_constant__ Run run, DequantiseBody body) {
  device::visit_rows(RunSource(run), body);
}

}  // namespace

void cuda_quantise(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                   std::byte* out, const Execution& on) {
  if (count == 0) return;
  const Run run = {Encoding::kFloat32, {const_cast<float*>(values), nullptr, count, 0, 0}};
  device::PackOutputs outputs;
  outputs.wire = wire;
  outputs.first_row = first / kScaled;
  outputs.count = count;
  outputs.encoded = out;
  launch_kernel(quantise_kernel, groups_for(count + kGroup, kGroupValues), kThreads, 0, on.stream,
                run, outputs);
}

void cuda_dequantise(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                     const Execution& on) {
  if (count == 0) return;
  const Run run = {Encoding::kFloat32, {out, nullptr, count, 0, 0}};
  launch_kernel(dequantise_kernel, groups_for(count, kGroupValues), kThreads, 0, on.stream, run,
                DequantiseBody{values, encoding, out});
}

}  // namespace asyncmesh::kernels
