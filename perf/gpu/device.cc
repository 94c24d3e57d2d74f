#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace asyncmesh::kernels::bench {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "gpu_benchmark: %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

void fill(Buffer<float>& buffer, uint64_t seed) {
  std::vector<float> values(1 << 22);
  uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (size_t at = 0; at < buffer.bytes(); at += values.size() * 4) {
    for (float& value : values) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      value = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-38F;
    }
    const size_t bytes = std::min(buffer.bytes() - at, values.size() * 4);
    check(cudaMemcpy(reinterpret_cast<std::byte*>(buffer.data()) + at, values.data(), bytes,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
}

uint64_t free_memory() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

Timer::Timer() {
  check(cudaStreamCreate(&stream_), "cudaStreamCreate");
  check(cudaEventCreate(&begin_), "cudaEventCreate");
  check(cudaEventCreate(&end_), "cudaEventCreate");
}

Timer::~Timer() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaStreamDestroy(stream_);
}

double Timer::run(const std::function<void()>& work, int calls) {
  check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
  for (int i = 0; i < calls; ++i) work();
  check(cudaEventRecord(end_, stream_), "cudaEventRecord");
  check(cudaEventSynchronize(end_), "a kernel");
  check(cudaGetLastError(), "a launch");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

double Timer::seconds(const std::function<void()>& work, double least) {
  constexpr int kRuns = 9, kMostCalls = 1000;
  run(work, 1);  // warm
  const double once = run(work, 1);
  const int calls = static_cast<int>(
      std::clamp(least / std::max(once, 1e-7), 1.0, static_cast<double>(kMostCalls)));
  std::vector<double> runs;
  for (int i = 0; i < kRuns; ++i) runs.push_back(run(work, calls) / calls);
  std::nth_element(runs.begin(), runs.begin() + kRuns / 2, runs.end());
  return runs[kRuns / 2];
}

}  // namespace asyncmesh::kernels::bench
