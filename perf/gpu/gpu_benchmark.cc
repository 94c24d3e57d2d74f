// Each CUDA kernel's share of the bandwidth of a copy on this machine's first GPU.
//
//   gpu_benchmark [--json FILE] [PARAMETERS]
//
// PARAMETERS: fp32 values of the model, by default 268,435,456, or what 80 % of the free memory
// holds at 44 bytes each.
//
// Why: every kernel has to move its bytes once; what a device-to-device cudaMemcpyAsync of as many
// bytes takes, in the same run, is the limit. Look for `of_copy` of 0.85 and more (top_change: 0.5
// of two passes), but for those marked scattered. About a minute. Ends with 0 when all was
// measured, whatever the numbers, and without a GPU, which it says; 1 when something failed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cases.h"

namespace asyncmesh::kernels::bench {
namespace {

constexpr uint64_t kStep = 1 << 20;  // whole groups wherever a run is cut
constexpr uint64_t kMost = 1 << 28;  // unless asked for

struct Options {
  const char* json = nullptr;
  uint64_t parameters = 0;  // 0: as many as fit
};

struct Result {
  std::string name;
  uint64_t bytes;
  double seconds, copy_seconds, goal;

  double of_copy() const { return copy_seconds / seconds; }
  double rate(double of) const { return static_cast<double>(bytes) / of * 1e-9; }  // GB/s
};

// Two buffers to copy between, apart from those of the kernels.
uint64_t bytes_for(uint64_t parameters) {
  return parameters * (Bench::kBytesPerParameter + 8) + (64 << 20);
}

// 0: none that is worth it.
uint64_t parameters_that_fit(uint64_t asked_for) {
  const uint64_t free = free_memory();
  if (asked_for != 0) {
    const uint64_t parameters = asked_for - asked_for % kStep;
    return bytes_for(parameters) <= free ? parameters : 0;
  }
  uint64_t parameters = kMost;
  while (parameters != 0 && bytes_for(parameters) > free / 10 * 8) parameters -= kStep;
  return parameters;
}

// A copy reads and writes: half the bytes each, as often as the buffers are too small.
double copy_seconds(Timer& timer, uint64_t bytes, Buffer<std::byte>& from, Buffer<std::byte>& to) {
  const uint64_t half = std::min<uint64_t>(bytes / 2, from.bytes());
  const double once = timer.seconds([&] {
    check(cudaMemcpyAsync(to.data(), from.data(), half, cudaMemcpyDeviceToDevice, timer.stream()),
          "cudaMemcpyAsync");
  });
  return once * static_cast<double>(bytes) / static_cast<double>(2 * half);
}

std::vector<Result> measure(uint64_t parameters) {
  Timer timer;
  Bench bench(parameters, timer.stream());
  Buffer<std::byte> from(parameters * 4), to(parameters * 4);
  check(cudaMemset(from.data(), 0x5A, from.bytes()), "cudaMemset");
  std::vector<Result> results;
  printf("%-28s %10s %10s %10s %8s\n", "", "us", "GB/s", "copy GB/s", "of_copy");
  for (const Case& one : bench.cases()) {
    one.prepare();
    const double limit = copy_seconds(timer, one.bytes, from, to);
    const Result result = {one.name, one.bytes, timer.seconds(one.call), limit, one.goal};
    results.push_back(result);
    printf("%-28s %10.1f %10.1f %10.1f %8.3f%s\n", one.name.c_str(), result.seconds * 1e6,
           result.rate(result.seconds), result.rate(limit), result.of_copy(),
           result.of_copy() < one.goal ? "  below its goal" : "");
  }
  return results;
}

long below_goal(const std::vector<Result>& results) {
  return std::count_if(results.begin(), results.end(),
                       [](const Result& result) { return result.of_copy() < result.goal; });
}

void write_json(FILE* file, const cudaDeviceProp& device, uint64_t parameters,
                const std::vector<Result>& results) {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  fprintf(file,
          "{\"gpu\": \"%s\", \"sm\": %d, \"multiprocessors\": %d, \"driver\": %d, \"runtime\": %d, "
          "\"parameters\": %llu, \"below_goal\": %ld, \"kernels\": [",
          device.name, device.major * 10 + device.minor, device.multiProcessorCount, driver,
          CUDART_VERSION, static_cast<unsigned long long>(parameters), below_goal(results));
  const char* separator = "\n";
  for (const Result& result : results) {
    fprintf(file,
            "%s  {\"name\": \"%s\", \"bytes\": %llu, \"seconds\": %.9f, \"copy_seconds\": %.9f, "
            "\"of_copy\": %.4f, \"goal\": %.2f}",
            separator, result.name.c_str(), static_cast<unsigned long long>(result.bytes),
            result.seconds, result.copy_seconds, result.of_copy(), result.goal);
    separator = ",\n";
  }
  fputs("\n]}\n", file);
}

FILE* opened(const char* path) {
  FILE* const file = path == nullptr ? nullptr : fopen(path, "w");
  if (path != nullptr && file == nullptr) {
    perror(path);
    exit(1);
  }
  return file;
}

int run(const Options& options) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    printf("gpu_benchmark: no GPU here (%s); nothing was measured\n",
           error != cudaSuccess ? cudaGetErrorString(error) : "no device");
    return 0;
  }
  cudaDeviceProp device = {};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  const uint64_t parameters = parameters_that_fit(options.parameters);
  if (parameters == 0) {
    fprintf(stderr, "gpu_benchmark: %.1f GiB of device memory are free: too little\n",
            static_cast<double>(free_memory()) * 0x1p-30);
    return 1;
  }
  FILE* const json = opened(options.json);  // before the work
  printf("%s (sm_%d%d), %llu parameters\n", device.name, device.major, device.minor,
         static_cast<unsigned long long>(parameters));
  if (parameters * 4 < 8 * static_cast<uint64_t>(device.l2CacheSize)) {
    puts("few enough for the cache to play a part: not the bandwidth of memory");
  }
  const std::vector<Result> results = measure(parameters);
  printf("%ld of %zu below their goal\n", below_goal(results), results.size());
  if (json == nullptr) return 0;
  write_json(json, device, parameters, results);
  if (fclose(json) == 0) return 0;
  perror(options.json);
  return 1;
}

}  // namespace
}  // namespace asyncmesh::kernels::bench

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);  // a line as soon as it is known, into a pipe too
  asyncmesh::kernels::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    char* end = nullptr;
    if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      options.json = argv[++i];
    } else if (options.parameters = strtoull(argv[i], &end, 10);
               *end != '\0' || options.parameters < 1 << 20 || options.parameters >> 40 != 0) {
      fputs("usage: gpu_benchmark [--json FILE] [PARAMETERS, at least 1048576]\n", stderr);
      return 2;
    }
  }
  return asyncmesh::kernels::bench::run(options);
}
