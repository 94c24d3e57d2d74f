// The optimiser's steps over flat arrays, and the running average of a table.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/dense.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/element.h"

namespace asyncmesh::kernels {
namespace {

using device::Raw;
using device::Values;

struct NadamwBody {
  NadamwArrays arrays;
  NadamwFactors factors;

  template <int N>
  __device__ void run(uint64_t i) {
    const Raw<N> raw_w = device::read_raw<N>(arrays.w, i, arrays.storage);
    const Raw<N> raw_gradient = device::read_raw<N>(arrays.gradient, i, arrays.storage);
    Values<N> m = device::read<N>(arrays.m, i);
    Values<N> v = device::read<N>(arrays.v, i);
    Values<N> w = device::decode<N>(raw_w, arrays.storage);
    const Values<N> gradient = device::decode<N>(raw_gradient, arrays.storage);
    for (int j = 0; j < N; ++j) {
      nadamw_element(factors, w.at[j], gradient.at[j], m.at[j], v.at[j]);
    }
    device::write<N>(arrays.w, i, arrays.storage, w);
    device::write<N>(arrays.m, i, m);
    device::write<N>(arrays.v, i, v);
    if (arrays.mirror != nullptr) device::write<N>(arrays.mirror, i, arrays.mirror_storage, w);
  }
};

struct LookAheadBody {
  const float* w;
  const float* previous;
  float gamma;
  float* point;

  template <int N>
  __device__ void run(uint64_t i) {
    const Values<N> now = device::read<N>(w, i), before = device::read<N>(previous, i);
    Values<N> next;
    for (int j = 0; j < N; ++j) next.at[j] = looked_ahead(gamma, now.at[j], before.at[j]);
    device::write<N>(point, i, next);
  }
};

struct NesterovBody {
  float* w;
  float* previous;
  const float* gradient;
  NesterovFactors factors;

  template <int N>
  __device__ void run(uint64_t i) {
    const Values<N> now = device::read<N>(w, i), before = device::read<N>(previous, i);
    const Values<N> g = device::read<N>(gradient, i);
    Values<N> next;
    for (int j = 0; j < N; ++j) {
      next.at[j] = nesterov_element(factors, now.at[j], before.at[j], g.at[j]);
    }
    device::write<N>(w, i, next);
    device::write<N>(previous, i, now);
  }
};

template <typename Body>
__global__ void __launch_bounds__(kThreads)
    dense_kernel(const device::Dense run, const __grid_constant__ Body body) {
  Body copy = body;
  device::for_elements(run, copy);
}

template <typename Body>
void run_dense(const DenseRun& run, const Body& body, void* stream) {
  if (run.count() == 0) return;
  launch_kernel(dense_kernel<Body>, run.groups(), kThreads, 0, stream, device::dense(run), body);
}

struct TableEmaBody {
  Encoding storage;
  AverageFactors factors;
  float* average;

  __device__ bool aligned(const LaunchPlace& place) const {
    return device::aligned(device::in_global(place.data), place, storage) &&
           device::quads_aligned(average + place.element);
  }
  template <int N>
  __device__ void run(const LaunchPlace& place, uint64_t element) {
    const Raw<N> raw = device::read_raw<N>(device::in_global(place.data), place.offset, storage);
    Values<N> next = device::read<N>(average, element);
    const Values<N> w = device::decode<N>(raw, storage);
    for (int j = 0; j < N; ++j) next.at[j] = averaged_element(factors, next.at[j], w.at[j]);
    device::write<N>(average, element, next);
  }
};

__global__ void __launch_bounds__(kThreads)
    table_ema_kernel(const __grid_constant__ TableLaunch table, TableEmaBody body) {
  device::visit_rows(device::TableSource(table), body);
}

}  // namespace

void cuda_nadamw(const NadamwArrays& arrays, uint64_t count, const NadamwArgs& args,
                 const Execution& on) {
  DenseRun run(count);
  run.add(arrays.w, arrays.storage);
  run.add(arrays.gradient, arrays.storage);
  run.add(arrays.m);
  run.add(arrays.v);
  run.add(arrays.mirror, arrays.mirror_storage);
  run_dense(run, NadamwBody{arrays, NadamwFactors(args)}, on.stream);
}

void cuda_look_ahead(const float* w, const float* previous, uint64_t count, float gamma,
                     float* point, const Execution& on) {
  DenseRun run(count);
  run.add(w);
  run.add(previous);
  run.add(point);
  run_dense(run, LookAheadBody{w, previous, gamma, point}, on.stream);
}

void cuda_nesterov(float* w, float* previous, const float* gradient, uint64_t count, float gamma,
                   float lr, const Execution& on) {
  DenseRun run(count);
  run.add(w);
  run.add(previous);
  run.add(gradient);
  run_dense(run, NesterovBody{w, previous, gradient, NesterovFactors(gamma, lr)}, on.stream);
}

void cuda_table_ema(const ParameterTable& table, float decay, float* average, const Execution& on) {
  TableLaunches launches(table, nullptr);
  while (launches.next()) {
    const TableLaunch& launch = launches.launch();
    launch_kernel(table_ema_kernel,
                  groups_for(launch.end_element - launch.begin_element + kScaled, kGroupValues),
                  kThreads, 0, on.stream, launch,
                  TableEmaBody{table.storage, AverageFactors(decay), average});
  }
}

}  // namespace asyncmesh::kernels
