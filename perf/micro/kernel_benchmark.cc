// CPU kernels against the memory of the machine.
//
// Why: an averager call and the optimiser step stand on the training thread. All four kernels do a
// few operations per byte, so that the limit is the memory bandwidth of one core, and the only
// figure that survives a change of machine is the share of it that they reach.
//
// Run:  kernel_benchmark [--benchmark_filter=Pack]   (release build; close other programs)
// Look: `of_limit`, bytes that the kernel has to read and write per second over those of a
// streaming
//       copy of 128 MiB, measured right before and after each benchmark. Above 1 is possible where
//       a kernel reads more than it writes. The table (32 Mi parameters, 20 parts) is larger than
//       most caches; every iteration takes another part, so that no iteration finds its blocks
//       warm.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {
namespace {

constexpr uint64_t kParameters = uint64_t{32} << 20;
constexpr uint32_t kParts = 20;

// Seconds of this thread: what other programs take from it does not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Bytes read and written per second by memcpy: the best of a few.
double copy_rate() {
  static std::vector<float> from(kParameters, 1.0F), to(kParameters, 2.0F);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double start = thread_seconds();
    std::memcpy(to.data(), from.data(), kParameters * sizeof(float));
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
    best = std::max(best, 2.0 * kParameters * sizeof(float) / (thread_seconds() - start));
  }
  return best;
}

// Times the iterations between its creation and `report`, which sets the counters.
class Limit {
 public:
  explicit Limit(benchmark::State& state)
      : state_(state), copy_(copy_rate()), start_(thread_seconds()) {}

  void report(uint64_t bytes_per_iteration) {
    const double took = thread_seconds() - start_;
    const double rate =
        static_cast<double>(bytes_per_iteration) * static_cast<double>(state_.iterations()) / took;
    state_.counters["bytes_per_s"] = rate;
    state_.counters["of_limit"] = rate / std::max(copy_, copy_rate());
  }

 private:
  benchmark::State& state_;
  double copy_;
  double start_;
};

// The shape of a small transformer: large matrices, and the vectors of norms and biases between.
struct Model {
  explicit Model(uint32_t granularity) : w(kParameters, 1.0F) {
    uint64_t offset = 0;
    for (uint64_t i = 0; offset < kParameters; ++i) {
      const uint64_t wanted = i % 3 == 2 ? uint64_t{1} << 20 : 1000;
      const uint64_t count = std::min(wanted, kParameters - offset);
      tensors.push_back({w.data() + offset, count, blocks});
      blocks += (count + granularity - 1) / granularity;
      offset += count;
    }
    subset = {1, blocks, kParts, 0, granularity, UINT64_MAX};
  }
  // The next part, or the first of the next permutation.
  void rotate() {
    subset.part = (subset.part + 1) % kParts;
    if (subset.part == 0) ++subset.key;
  }
  uint32_t size() const { return static_cast<uint32_t>(tensors.size()); }

  std::vector<float> w;
  std::vector<TensorView> tensors;
  uint64_t blocks = 0;
  Subset subset;
};

constexpr uint64_t kPacked = kParameters / kParts + 65536;  // room for the largest part

void pack(benchmark::State& state) {
  const auto encoding = static_cast<Encoding>(state.range(1));
  Model model(static_cast<uint32_t>(state.range(0)));
  std::vector<float> snapshot(kPacked);
  std::vector<std::byte> encoded(encoded_bytes(encoding, kPacked));
  Limit limit(state);
  for (auto _ : state) {
    cpu().pack(model.tensors.data(), model.size(), model.subset, encoding, snapshot.data(),
               encoded.data(), nullptr);
    benchmark::ClobberMemory();
    model.rotate();
  }
  const uint64_t count = kParameters / kParts;
  limit.report(count * 2 * sizeof(float) + encoded_bytes(encoding, count));
}
BENCHMARK(pack)
    ->Name("Pack/granularity/encoding")
    ->ArgsProduct({{1, 64, 1024}, {0, 1, 2}})
    ->Unit(benchmark::kMillisecond);

void average(benchmark::State& state) {
  const auto members = static_cast<uint32_t>(state.range(0));
  const auto encoding = static_cast<Encoding>(state.range(1));
  constexpr uint64_t kCount = kParameters / 4;  // beyond the caches, as large models are
  std::vector<std::vector<std::byte>> values(members);
  std::vector<const std::byte*> pointers;
  for (auto& contribution : values) {
    contribution.resize(encoded_bytes(encoding, kCount), std::byte{0x3F});
    pointers.push_back(contribution.data());
  }
  const std::vector<float> weights(members, 1.0F);
  std::vector<float> mean(kCount);
  uint64_t not_finite = 0;
  Limit limit(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(cpu().average(pointers.data(), weights.data(), members, encoding,
                                           kCount, mean.data(), &not_finite, nullptr));
    benchmark::ClobberMemory();
  }
  limit.report(members * encoded_bytes(encoding, kCount) + kCount * sizeof(float));
}
BENCHMARK(average)
    ->Name("Average/members/encoding")
    ->ArgsProduct({{2, 8}, {0, 1, 2}})
    ->Unit(benchmark::kMillisecond);

void apply(benchmark::State& state) {
  ApplyArgs args;
  args.rule = static_cast<Rule>(state.range(0));
  const auto encoding = static_cast<Encoding>(state.range(1));
  args.lossless = lossless(encoding);
  Model model(64);
  const std::vector<float> snapshot(kPacked, 1.0F), mean(kPacked, 1.0F);
  const std::vector<std::byte> own(encoded_bytes(encoding, kPacked), std::byte{0x3F});
  std::vector<float> ema(kParameters, 0.0F);
  std::vector<uint64_t> visited(model.blocks / 64 + 1, 0);
  const bool has_ema = args.rule == Rule::kEma;
  Limit limit(state);
  for (auto _ : state) {
    cpu().apply(model.tensors.data(), model.size(), model.subset, args, snapshot.data(),
                mean.data(), own.data(), encoding, has_ema ? ema.data() : nullptr,
                has_ema ? visited.data() : nullptr, nullptr, nullptr);
    benchmark::ClobberMemory();
    model.rotate();
  }
  const uint64_t count = kParameters / kParts;
  limit.report(count * sizeof(float) * (has_ema ? 6 : 4) +
               (args.lossless ? 0 : encoded_bytes(encoding, count)));
}
BENCHMARK(apply)
    ->Name("Apply/rule/encoding")
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

void nadamw(benchmark::State& state) {
  constexpr uint64_t kCount = kParameters / 4;
  const bool mirrored = state.range(0) != 0;
  std::vector<float> w(kCount, 1.0F), gradient(kCount, 0.01F), m(kCount, 0.0F), v(kCount, 0.0F);
  std::vector<float> mirror(mirrored ? kCount : 0);
  NadamwArgs args;
  args.lr = args.gradient_factor = args.momentum_factor = 1e-4;
  Limit limit(state);
  for (auto _ : state) {
    cpu().nadamw(w.data(), gradient.data(), m.data(), v.data(), kCount, args,
                 mirrored ? mirror.data() : nullptr, nullptr);
    benchmark::ClobberMemory();
  }
  limit.report(kCount * sizeof(float) * (mirrored ? 8 : 7));
}
BENCHMARK(nadamw)->Name("Nadamw/mirror")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void sum_of_squares(benchmark::State& state) {
  constexpr uint64_t kCount = kParameters / 4;
  const std::vector<float> values(kCount, 0.5F);
  double sums[kSumSlots];
  Limit limit(state);
  for (auto _ : state) {
    cpu().sum_of_squares(values.data(), kCount, sums, nullptr);
    benchmark::DoNotOptimize(sums[0]);
  }
  limit.report(kCount * sizeof(float));
}
BENCHMARK(sum_of_squares)->Name("SumOfSquares")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asyncmesh::kernels

BENCHMARK_MAIN();
