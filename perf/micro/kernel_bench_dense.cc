// Whole tables: the optimiser's step, norms.
#include "kernel_bench_limit.h"
#include "kernel_bench_memory.h"

namespace asyncmesh::kernels::bench {
namespace {

constexpr uint64_t kCount = uint64_t{8} << 20;

void nadamw(benchmark::State& state) {
  const bool mirrored = state.range(0) != 0;
  const Memory<float> w(kCount, 1.0F), gradient(kCount, 0.01F), m(kCount, 0.0F), v(kCount, 0.0F);
  const Memory<float> mirror(mirrored ? kCount : 1, 0.0F);
  NadamwArgs args;
  args.lr = args.gradient_factor = args.momentum_factor = 1e-4;
  NadamwArrays arrays;
  arrays.w = w.data();
  arrays.gradient = gradient.data();
  arrays.m = m.data();
  arrays.v = v.data();
  arrays.mirror = mirrored ? mirror.data() : nullptr;
  Limit limit(state, static_cast<uint32_t>(state.range(1)));
  for (auto _ : state) {
    limit.time([&] { cpu().nadamw(arrays, kCount, args, limit.execution()); });
  }
  limit.report(kCount * sizeof(float) * (mirrored ? 8 : 7));
}
BENCHMARK(nadamw)
    ->Name("Nadamw/mirror/threads")
    ->ArgsProduct({{0, 1}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void sum_of_squares(benchmark::State& state) {
  const Memory<float> values(kCount, 0.5F);
  double sums[kSumSlots];
  Limit limit(state, static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) {
    limit.time([&] { cpu().sum_of_squares(values.data(), kCount, sums, limit.execution()); });
  }
  limit.report(kCount * sizeof(float));
}
BENCHMARK(sum_of_squares)
    ->Name("SumOfSquares/threads")
    ->ArgsProduct({kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace asyncmesh::kernels::bench
