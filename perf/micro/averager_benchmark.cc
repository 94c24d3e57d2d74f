// What an averaging call costs the training thread: asyncmesh_averager_call of a 100 M parameter
// model, 5 % of it per round, two replicas in this process over the loopback engine, each with its
// progress thread. A call averages and applies the round before, then packs and posts the next one.
//
//   averager_benchmark [Google Benchmark's options]
//
// Look for `of_must`: the time of a call over that of the bytes that pack, copy into frames,
// average and apply have to read and write, at the rate of a streaming copy by as many threads just
// before it; the median of those. The goal is at most 1.3. (Of arrays of 20 MB nothing much
// survives in a cache from one to the next.) Only calls that apply one round and start one count;
// frames travel between calls, and what they take of the memory's bandwidth during a call is in its
// time.
#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "averager_bench_replica.h"
#include "kernel_bench_limit.h"

namespace asyncmesh::kernels::bench {
namespace {

constexpr uint64_t kModel = 100'000'000;
constexpr uint32_t kRounds = 20;  // in a cycle: 5 %

// Bytes that a call has to read and write: see above.
uint64_t bytes_of_call(Encoding encoding) {
  const uint64_t part = kModel / kRounds, words = part * sizeof(float);
  const uint64_t wire = encoded_bytes(encoding, part), own = lossless(encoding) ? 0 : wire;
  const uint64_t packed = 2 * words + own, copied = 2 * wire;
  const uint64_t averaged = 2 * wire + words, applied = 6 * words + own;
  return packed + copied + averaged + applied;
}

asyncmesh_wire_t wire_of(Encoding encoding) {
  if (encoding == Encoding::kInt8) return ASYNCMESH_WIRE_INT8;
  return encoding == Encoding::kBfloat16 ? ASYNCMESH_WIRE_BFLOAT16 : ASYNCMESH_WIRE_FLOAT32;
}

void averager_call(benchmark::State& state) {
  const auto encoding = static_cast<Encoding>(state.range(0));
  const auto threads = static_cast<uint32_t>(state.range(1));
  const std::string url = free_url();
  std::unique_ptr<Replica> other;
  std::thread joins(
      [&] { other = std::make_unique<Replica>(1, url, kModel, wire_of(encoding), threads); });
  Replica replica(0, url, kModel, wire_of(encoding), threads);
  joins.join();
  // The frames of both arrive, which takes a small part of it.
  const auto travel = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  for (uint32_t i = 0; i < kRounds + 2; ++i) {  // the first visit of every part has its own path
    replica.call();
    other->call();
    travel();
  }
  Limit limit(state, threads);
  std::vector<double> of_must;
  for (auto _ : state) {
    for (;;) {
      const double rate = limit.measure_copy();
      const double start = seconds_now();
      const asyncmesh_averager_result_t result = replica.call();
      const double seconds = seconds_now() - start;
      other->call();
      travel();
      if (result.applied != 1 || result.started != 1) continue;
      limit.record(seconds);
      of_must.push_back(seconds * rate / static_cast<double>(bytes_of_call(encoding)));
      break;
    }
  }
  limit.report(bytes_of_call(encoding));
  state.counters["of_must"] = median(std::move(of_must));
}
BENCHMARK(averager_call)
    ->Name("AveragerCall/encoding/threads")
    ->ArgsProduct({{0, 1, 3}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace asyncmesh::kernels::bench

BENCHMARK_MAIN();
