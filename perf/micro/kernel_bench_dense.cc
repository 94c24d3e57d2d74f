// Whole tables: the optimiser's step and what goes with it, norms, wire encodings.
#include "kernel_bench_limit.h"
#include "kernel_bench_memory.h"

namespace asyncmesh::kernels::bench {
namespace {

constexpr uint64_t kCount = uint64_t{32} << 20;     // one or two arrays
constexpr uint64_t kOfSeveral = uint64_t{8} << 20;  // each of several

uint32_t threads(const benchmark::State& state, size_t argument) {
  return static_cast<uint32_t>(state.range(argument));
}

// Values of all magnitudes that training knows, so that no branch of an encoding is always taken.
void fill(const Memory<float>& values) {
  uint32_t x = 1;
  for (float& value : values.span()) {
    x = x * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(x)) * 0x1p-34F;
  }
}

void nadamw(benchmark::State& state) {
  const auto storage = static_cast<Encoding>(state.range(0));
  const bool mirrored = state.range(1) != 0;  // a bf16 working copy
  const size_t bytes = encoded_bytes(storage, kOfSeveral);
  const size_t mirror_bytes = mirrored ? encoded_bytes(Encoding::kBfloat16, kOfSeveral) : 1;
  const Memory<std::byte> w(bytes, std::byte{0x3F}), gradient(bytes, std::byte{0x3C});
  const Memory<std::byte> mirror(mirror_bytes, std::byte{0});
  const Memory<float> m(kOfSeveral, 0.0F), v(kOfSeveral, 0.0F);
  NadamwArgs args;
  args.lr = args.gradient_factor = args.momentum_factor = 1e-4;
  NadamwArrays arrays = {w.data(), gradient.data(), storage, m.data(), v.data()};
  arrays.mirror = mirrored ? mirror.data() : nullptr;
  arrays.mirror_storage = Encoding::kBfloat16;
  Limit limit(state, threads(state, 2));
  for (auto _ : state) {
    limit.time([&] { cpu().nadamw(arrays, kOfSeveral, args, limit.execution()); });
  }
  limit.report(3 * bytes + 4 * kOfSeveral * sizeof(float) + (mirrored ? mirror_bytes : 0));
}
BENCHMARK(nadamw)
    ->Name("Nadamw/storage/mirror/threads")
    ->ArgsProduct({{0, 1, 2}, {0, 1}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void look_ahead(benchmark::State& state) {
  const Memory<float> w(kOfSeveral, 1.0F), previous(kOfSeveral, 0.9F), point(kOfSeveral, 0.0F);
  Limit limit(state, threads(state, 0));
  for (auto _ : state) {
    limit.time([&] {
      cpu().look_ahead(w.data(), previous.data(), kOfSeveral, 0.9F, point.data(),
                       limit.execution());
    });
  }
  limit.report(kOfSeveral * sizeof(float) * 3);
}
BENCHMARK(look_ahead)
    ->Name("LookAhead/threads")
    ->ArgsProduct({kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void nesterov(benchmark::State& state) {
  const Memory<float> w(kOfSeveral, 1.0F), previous(kOfSeveral, 1.0F), gradient(kOfSeveral, 0.0F);
  Limit limit(state, threads(state, 0));
  for (auto _ : state) {
    limit.time([&] {
      cpu().nesterov(w.data(), previous.data(), gradient.data(), kOfSeveral, 0.9F, 1e-3F,
                     limit.execution());
    });
  }
  limit.report(kOfSeveral * sizeof(float) * 5);
}
BENCHMARK(nesterov)
    ->Name("Nesterov/threads")
    ->ArgsProduct({kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void table_ema(benchmark::State& state) {
  const auto storage = static_cast<Encoding>(state.range(0));
  const Memory<std::byte> w(encoded_bytes(storage, kCount), std::byte{0x3F});
  const Memory<float> average(kCount, 1.0F);
  const TensorView tensor = {w.data(), kCount, 0};
  const ParameterTable table = {&tensor, 1, storage};
  Limit limit(state, threads(state, 1));
  for (auto _ : state) {
    limit.time([&] { cpu().table_ema(table, 0.999F, average.data(), limit.execution()); });
  }
  limit.report(encoded_bytes(storage, kCount) + kCount * sizeof(float) * 2);
}
BENCHMARK(table_ema)
    ->Name("TableEma/storage/threads")
    ->ArgsProduct({{0, 1}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void sum_of_squares(benchmark::State& state) {
  const Memory<float> values(kCount, 0.5F);
  double sums[kSumSlots];
  Limit limit(state, threads(state, 0));
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

void compare(benchmark::State& state) {
  const auto storage = static_cast<Encoding>(state.range(0));
  const size_t bytes = encoded_bytes(storage, kCount);
  const Memory<std::byte> a(bytes, std::byte{0x3F}), b(bytes, std::byte{0x3E});
  const TensorView first = {a.data(), kCount, 0}, second = {b.data(), kCount, 0};
  double sums[kSumSlots];
  Limit limit(state, threads(state, 1));
  for (auto _ : state) {
    limit.time([&] {
      cpu().compare({&first, 1, storage}, {&second, 1, storage}, sums, limit.execution());
    });
  }
  limit.report(2 * bytes);
}
BENCHMARK(compare)
    ->Name("Compare/storage/threads")
    ->ArgsProduct({{0, 1}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void quantise(benchmark::State& state) {
  Wire wire;
  wire.encoding = static_cast<Encoding>(state.range(0));
  wire.rounding = static_cast<Rounding>(state.range(1));
  const Memory<float> values(kCount, 0.0F);
  fill(values);
  const size_t bytes = encoded_bytes(wire.encoding, kCount);
  const Memory<std::byte> encoded(bytes, std::byte{0});
  Limit limit(state, threads(state, 2));
  for (auto _ : state) {
    ++wire.seed;
    limit.time(
        [&] { cpu().quantise(values.data(), kCount, wire, 0, encoded.data(), limit.execution()); });
  }
  limit.report(kCount * sizeof(float) + bytes);
}
BENCHMARK(quantise)
    ->Name("Quantise/encoding/stochastic/threads")
    ->ArgsProduct({{1, 2, 3, 4}, {0, 1}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void dequantise(benchmark::State& state) {
  const auto encoding = static_cast<Encoding>(state.range(0));
  const Memory<float> values(kCount, 0.0F);
  fill(values);
  const size_t bytes = encoded_bytes(encoding, kCount);
  const Memory<std::byte> encoded(bytes, std::byte{0});
  cpu().quantise(values.data(), kCount, {encoding}, 0, encoded.data(), {});
  Limit limit(state, threads(state, 1));
  for (auto _ : state) {
    limit.time([&] {
      cpu().dequantise(encoded.data(), kCount, encoding, values.data(), limit.execution());
    });
  }
  limit.report(kCount * sizeof(float) + bytes);
}
BENCHMARK(dequantise)
    ->Name("Dequantise/encoding/threads")
    ->ArgsProduct({{1, 2, 3, 4}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace asyncmesh::kernels::bench
