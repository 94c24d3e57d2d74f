// The rotating subset: pack, unpack, average, apply.
#include <vector>

#include "kernel_bench_limit.h"
#include "kernel_bench_model.h"

namespace asyncmesh::kernels::bench {
namespace {

uint32_t threads_of(const benchmark::State& state, int position) {
  return static_cast<uint32_t>(state.range(position));
}

constexpr uint64_t kCount = kParameters / kParts;  // values of a part

// An array in packed order for every part: as in a training, where a step lies between two calls,
// none of them is in a cache.
class PackedBytes {
 public:
  explicit PackedBytes(Encoding encoding)
      : slice_((encoded_bytes(encoding, packed_room(kParameters)) + 63) / 64 * 64),
        memory_(slice_ * kParts, std::byte{0x3F}) {}

  std::byte* at(const Model& model) const { return memory_.data() + slice_ * model.subset.part; }
  float* floats(const Model& model) const { return reinterpret_cast<float*>(at(model)); }

 private:
  size_t slice_;
  Memory<std::byte> memory_;
};

void pack(benchmark::State& state) {
  const auto encoding = static_cast<Encoding>(state.range(1));
  Model model(static_cast<uint32_t>(state.range(0)));
  const PackedBytes snapshot(Encoding::kFloat32), encoded(encoding);
  const bool lossy = !lossless(encoding);
  Limit limit(state, threads_of(state, 2));
  for (auto _ : state) {
    limit.time([&] {
      cpu().partition_pack(model.table, model.subset, {encoding}, snapshot.floats(model),
                           lossy ? encoded.at(model) : nullptr, limit.execution());
    });
    model.rotate();
  }
  limit.report(kCount * 2 * sizeof(float) + (lossy ? encoded_bytes(encoding, kCount) : 0));
}
BENCHMARK(pack)
    ->Name("PartitionPack/granularity/encoding/threads")
    ->ArgsProduct({{1, 64, 1024}, {0, 1, 2, 3, 4}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void unpack(benchmark::State& state) {
  const auto encoding = static_cast<Encoding>(state.range(1));
  Model model(static_cast<uint32_t>(state.range(0)));
  const PackedBytes encoded(encoding);
  Limit limit(state, threads_of(state, 2));
  for (auto _ : state) {
    limit.time([&] {
      cpu().partition_unpack(model.table, model.subset, encoding, encoded.at(model),
                             limit.execution());
    });
    model.rotate();
  }
  limit.report(kCount * sizeof(float) + encoded_bytes(encoding, kCount));
}
BENCHMARK(unpack)
    ->Name("PartitionUnpack/granularity/encoding/threads")
    ->ArgsProduct({{1, 64, 1024}, {0, 1, 2, 3, 4}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void average(benchmark::State& state) {
  const auto members = static_cast<uint32_t>(state.range(0));
  const auto encoding = static_cast<Encoding>(state.range(1));
  constexpr uint64_t kValues = kParameters / 4;  // beyond the caches, as large models are
  const size_t bytes = encoded_bytes(encoding, kValues);
  const Memory<std::byte> values(members * bytes, std::byte{0x3F});
  std::vector<const std::byte*> pointers;
  for (uint32_t r = 0; r < members; ++r) pointers.push_back(values.data() + r * bytes);
  const std::vector<float> weights(members, 1.0F);
  const Memory<float> mean(kValues, 0.0F);
  uint64_t not_finite = 0;
  Limit limit(state, threads_of(state, 2));
  for (auto _ : state) {
    limit.time([&] {
      benchmark::DoNotOptimize(cpu().average({pointers.data(), weights.data(), members, encoding},
                                             kValues, mean.data(), &not_finite, limit.execution()));
    });
  }
  limit.report(members * bytes + kValues * sizeof(float));
}
BENCHMARK(average)
    ->Name("Average/members/encoding/threads")
    ->ArgsProduct({{2, 8}, {0, 1, 2, 3, 4}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void apply(benchmark::State& state) {
  ApplyArgs args;
  args.rule = static_cast<Rule>(state.range(0));
  const auto encoding = static_cast<Encoding>(state.range(1));
  const bool has_ema = args.rule == Rule::kEma;
  Model model(64);
  const PackedBytes snapshot(Encoding::kFloat32), mean(Encoding::kFloat32), own(encoding);
  const Memory<float> ema(has_ema ? kParameters : 1, 0.0F);
  std::vector<uint64_t> visited(model.blocks / 64 + 1, 0);
  ApplyArrays arrays;
  arrays.encoding = encoding;
  arrays.ema = has_ema ? ema.data() : nullptr;
  arrays.visited = has_ema ? visited.data() : nullptr;
  Limit limit(state, threads_of(state, 2));
  for (auto _ : state) {
    arrays.snapshot = snapshot.floats(model);
    arrays.mean = mean.floats(model);
    arrays.own = lossless(encoding) ? nullptr : own.at(model);
    limit.time([&] { cpu().apply(model.table, model.subset, args, arrays, limit.execution()); });
    model.rotate();
  }
  limit.report(kCount * sizeof(float) * (has_ema ? 6 : 4) +
               (arrays.own == nullptr ? 0 : encoded_bytes(encoding, kCount)));
}
BENCHMARK(apply)
    ->Name("Apply/rule/encoding/threads")
    ->ArgsProduct({{1, 2}, {0, 1, 3}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace asyncmesh::kernels::bench
