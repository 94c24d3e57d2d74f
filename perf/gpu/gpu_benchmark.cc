// Each CUDA kernel's share of the bandwidth of a copy on this machine's first GPU.
//
//   gpu_benchmark [--json FILE] [PARAMETERS]      (default: 268,435,456 fp32 values; 9.2 GiB in
//   all)
//
// Why: every kernel has to move its bytes once; what a device-to-device cudaMemcpyAsync of as many
// bytes takes, in the same run, is the limit. Look for `of_copy` of 0.85 and more, but for those
// marked scattered. Without a GPU it says so and ends with 0.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cases.h"

namespace asyncmesh::kernels::bench {
namespace {

struct Result {
  std::string name;
  uint64_t bytes;
  double seconds, of_copy;
};

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
  std::vector<Result> results;
  printf("%-28s %10s %10s %8s\n", "", "GB/s", "us", "of_copy");
  for (const Case& one : bench.cases()) {
    one.prepare();
    const double limit = copy_seconds(timer, one.bytes, from, to);
    const double seconds = timer.seconds(one.call);
    results.push_back({one.name, one.bytes, seconds, limit / seconds});
    printf("%-28s %10.1f %10.1f %8.3f\n", one.name.c_str(),
           static_cast<double>(one.bytes) / seconds * 1e-9, seconds * 1e6, limit / seconds);
  }
  return results;
}

void write_json(const char* path, const cudaDeviceProp& device, uint64_t parameters,
                const std::vector<Result>& results) {
  FILE* const file = fopen(path, "w");
  if (file == nullptr) {
    perror(path);
    exit(1);
  }
  fprintf(file, "{\"gpu\": \"%s\", \"sm\": %d, \"parameters\": %llu, \"kernels\": [", device.name,
          device.major * 10 + device.minor, static_cast<unsigned long long>(parameters));
  const char* separator = "\n";
  for (const Result& result : results) {
    fprintf(file, "%s  {\"name\": \"%s\", \"bytes\": %llu, \"seconds\": %.9f, \"of_copy\": %.4f}",
            separator, result.name.c_str(), static_cast<unsigned long long>(result.bytes),
            result.seconds, result.of_copy);
    separator = ",\n";
  }
  fputs("\n]}\n", file);
  fclose(file);
}

int run(const char* json, uint64_t parameters) {
  parameters -= parameters % (1 << 20);  // whole groups wherever a run is cut
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    printf("gpu_benchmark: no GPU here (%s); nothing was measured\n",
           error != cudaSuccess ? cudaGetErrorString(error) : "no device");
    return 0;
  }
  cudaDeviceProp device = {};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  printf("%s (sm_%d%d), %llu parameters\n", device.name, device.major, device.minor,
         static_cast<unsigned long long>(parameters));
  const std::vector<Result> results = measure(parameters);
  if (json != nullptr) write_json(json, device, parameters, results);
  return 0;
}

}  // namespace
}  // namespace asyncmesh::kernels::bench

int main(int argc, char** argv) {
  const char* json = nullptr;
  uint64_t parameters = uint64_t{1} << 28;
  for (int i = 1; i < argc; ++i) {
    char* end = nullptr;
    if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else if (parameters = strtoull(argv[i], &end, 10); *end != '\0' || parameters < 1 << 20) {
      fputs("usage: gpu_benchmark [--json FILE] [PARAMETERS, at least 1048576]\n", stderr);
      return 2;
    }
  }
  return asyncmesh::kernels::bench::run(json, parameters);
}
