// The limit that kernels are held against: the rate of a streaming copy by the same number of
// threads, measured between their own iterations.
//
//      Limit limit(state, threads);
//      for (auto _ : state) limit.time([&] { cpu().average(..., limit.execution()); });
//      limit.report(bytes_that_must_move);
//
// Times are wall clock, and medians: a machine that is busy now and then does not show, one that is
// always busy slows both down. Register with ->UseManualTime().
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace asyncmesh::kernels::bench {

double median(std::vector<double> values);  // 0: of none

inline double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

class Limit {
 public:
  // `threads` is at least 1; teams are made once and kept.
  explicit Limit(benchmark::State& state, uint32_t threads = 1);

  const Execution& execution() const { return on_; }

  // Runs one iteration, and now and then a copy beside the clock.
  template <typename Work>
  void time(const Work& work) {
    const double start = seconds_now();
    work();
    benchmark::ClobberMemory();
    record(seconds_now() - start);
  }

  // The parts of time(): an iteration that was timed elsewhere, and one copy, in bytes per second.
  void record(double seconds);
  double measure_copy();
  // Median seconds of an iteration.
  double seconds() const;
  // Sets `bytes_per_s` and `of_limit` from the bytes that one iteration has to read and write.
  void report(uint64_t bytes_per_iteration);

 private:
  benchmark::State& state_;
  Execution on_;
  std::vector<double> iterations_;
  std::vector<double> copies_;  // bytes per second
  double since_copy_ = 0;
};

// Registers a benchmark for 1 and for 2 threads: the last argument.
inline const std::vector<int64_t> kThreads = {1, 2};

}  // namespace asyncmesh::kernels::bench
