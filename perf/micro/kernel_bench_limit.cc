#include "kernel_bench_limit.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "kernel_bench_memory.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/thread_team.h"

namespace asyncmesh::kernels::bench {
namespace {

constexpr size_t kCopyBytes = size_t{128} << 20;
constexpr double kCopyEvery = 0.2;  // seconds of iterations

Workers* team(uint32_t threads) {
  static std::map<uint32_t, std::unique_ptr<ThreadTeam>> teams;
  if (threads < 2) return nullptr;
  auto& team = teams[threads];
  if (team == nullptr) team = std::make_unique<ThreadTeam>(threads);
  return team.get();
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Limit::Limit(benchmark::State& state, uint32_t threads) : state_(state) {
  on_.workers = team(threads);
  iterations_.reserve(1 << 16);
  for (int i = 0; i < 3; ++i) measure_copy();
}

double Limit::measure_copy() {
  static const Memory<std::byte> from(kCopyBytes, std::byte{1}), to(kCopyBytes, std::byte{2});
  const double start = seconds_now();
  spread(on_.workers, kCopyBytes, 4096, [](uint64_t begin, uint64_t end) {
    std::memcpy(to.data() + begin, from.data() + begin, end - begin);
  });
  benchmark::ClobberMemory();
  copies_.push_back(2.0 * static_cast<double>(kCopyBytes) / (seconds_now() - start));
  return copies_.back();
}

void Limit::record(double seconds) {
  state_.SetIterationTime(seconds);
  iterations_.push_back(seconds);
  since_copy_ += seconds;
  if (since_copy_ < kCopyEvery) return;
  since_copy_ = 0;
  measure_copy();
}

double Limit::seconds() const { return median(iterations_); }

void Limit::report(uint64_t bytes_per_iteration) {
  measure_copy();
  const double rate = static_cast<double>(bytes_per_iteration) / seconds();
  state_.counters["bytes_per_s"] = rate;
  state_.counters["of_limit"] = rate / median(copies_);
}

}  // namespace asyncmesh::kernels::bench
