// What the lane protocol costs over the UCP calls it is made of.
//
// Why it matters: the library's promise is to add nothing worth mentioning to the transport.
// Absolute numbers depend on the machine; the ratio hardly does, and it is what to watch.
//
// How to run: lane_benchmark [--smoke] [--json FILE] [--medium NAME] [--bytes N]
// Two processes on this machine exchange frames, progress by hand, both spinning: leave them two
// cores. The same exchange runs through lanes and through bare UCP calls in the same two processes,
// in alternating blocks, so that both see the same disturbance.
//
// What to look for: latency ratio at most 1.5, bandwidth ratio at least 0.8. Latency is half a
// round trip, the median over batches of 8 round trips; bandwidth is the median over streams, in MB
// of 2^20 bytes per second.
#include <fmt/core.h>
#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "perf/micro/lane_bench_pattern.h"

namespace asyncmesh::bench {
namespace {

constexpr uint32_t kBatch = 8;
constexpr uint32_t kLatencySizes[] = {8, 256, 4096};
constexpr uint32_t kStreamBytes = 1 << 20;

struct Options {
  std::string json;
  std::string medium;           // empty: all
  uint32_t bytes = 0;           // 0: all
  uint32_t blocks = 20;         // of each side
  uint32_t batches = 250;       // per block
  uint32_t stream_frames = 64;  // per block; a multiple of kStreamWindow
};

struct Outcome {
  std::string medium;
  uint32_t bytes = 0;
  bool stream = false;
  double lanes = 0;  // us or MB/s
  double bare = 0;
  double ratio() const { return lanes / bare; }
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

void sample_latency(Pattern& pattern, uint32_t batches, std::vector<double>& microseconds) {
  for (uint32_t batch = 0; batch < batches; ++batch) {
    const double start = seconds_now();
    pattern.ping_pong(kBatch);
    microseconds.push_back((seconds_now() - start) * 1e6 / (2 * kBatch));
  }
}

void sample_bandwidth(Pattern& pattern, uint32_t frames, std::vector<double>& rates) {
  const double start = seconds_now();
  pattern.stream(frames);
  rates.push_back(frames * (kStreamBytes / double{1 << 20}) / (seconds_now() - start));
}

Outcome measure(const ProcessPair& pair, const Medium& medium, uint32_t bytes,
                const Options& options) {
  const bool stream = bytes == kStreamBytes;
  const Shape shape{bytes, stream ? kStreamWindow : kLatencyWindow};
  const auto lanes = make_lane_pattern(pair, medium, shape);
  const auto bare =
      medium.rma ? make_put_pattern(pair, medium, shape) : make_tag_pattern(pair, medium, shape);
  std::vector<double> samples[2];
  for (uint32_t block = 0; block <= options.blocks; ++block) {
    // The first block warms up.
    if (block == 1) samples[0].clear(), samples[1].clear();
    for (int side = 0; side < 2; ++side) {
      Pattern& pattern = side == 0 ? *lanes : *bare;
      if (stream) {
        sample_bandwidth(pattern, options.stream_frames, samples[side]);
      } else {
        sample_latency(pattern, options.batches, samples[side]);
      }
    }
  }
  if (pair.leader() && bytes == kLatencySizes[0]) {
    fmt::print("# {}: {} against {}\n", medium.name, lanes->describe(), bare->describe());
  }
  return {medium.name, bytes, stream, median(samples[0]), median(samples[1])};
}

void print(const Outcome& outcome) {
  fmt::print("{:<8} {:>8} {:<10} {:>12.3f} {:>12.3f} {:>8.2f}\n", outcome.medium, outcome.bytes,
             outcome.stream ? "MB/s" : "us one-way", outcome.lanes, outcome.bare, outcome.ratio());
  std::fflush(stdout);
}

void write_json(const std::string& path, const std::vector<Outcome>& outcomes) {
  FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) give_up(path.c_str(), std::strerror(errno));
  fmt::print(file, "{{\"schema_version\": 1, \"ucx\": \"{}\", \"results\": [",
             ucp_get_version_string());
  const char* separator = "";
  for (const Outcome& outcome : outcomes) {
    fmt::print(file,
               "{}\n  {{\"medium\": \"{}\", \"bytes\": {}, \"metric\": \"{}\", \"lanes\": {:.4f}, "
               "\"bare\": {:.4f}, \"ratio\": {:.4f}}}",
               separator, outcome.medium, outcome.bytes,
               outcome.stream ? "mb_per_s" : "one_way_p50_us", outcome.lanes, outcome.bare,
               outcome.ratio());
    separator = ",";
  }
  fmt::print(file, "\n]}}\n");
  std::fclose(file);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--smoke") {
      options.blocks = 1;
      options.batches = 25;
      options.stream_frames = 16;
    } else if (argument == "--json" && has_value) {
      options.json = argv[++i];
    } else if (argument == "--medium" && has_value) {
      options.medium = argv[++i];
    } else if (argument == "--bytes" && has_value) {
      options.bytes = static_cast<uint32_t>(std::atoi(argv[++i]));
    } else {
      give_up(argv[i], "usage: lane_benchmark [--smoke] [--json FILE] [--medium NAME] [--bytes N]");
    }
  }
  return options;
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const ProcessPair pair;
  const Medium media[] = {
      {"tag/tcp", "tcp", false}, {"tag/shm", "shm", false}, {"rma/shm", "shm", true}};
  std::vector<Outcome> outcomes;
  if (pair.leader()) {
    fmt::print("# UCX {}\n# medium   bytes unit              lanes         bare    ratio\n",
               ucp_get_version_string());
  }
  for (const Medium& medium : media) {
    if (!options.medium.empty() && options.medium != medium.name) continue;
    for (const uint32_t bytes :
         {kLatencySizes[0], kLatencySizes[1], kLatencySizes[2], kStreamBytes}) {
      if (options.bytes != 0 && options.bytes != bytes) continue;
      outcomes.push_back(measure(pair, medium, bytes, options));
      if (pair.leader()) print(outcomes.back());
    }
  }
  if (pair.leader() && !options.json.empty()) write_json(options.json, outcomes);
  return 0;
}

}  // namespace
}  // namespace asyncmesh::bench

int main(int argc, char** argv) { return asyncmesh::bench::run(argc, argv); }
