// The rotating subset: pack, unpack, average, apply.
#include <algorithm>
#include <cstring>
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

// What an averaging call has the training thread do at 100 M parameters, 5 % and two replicas: pack
// a part, copy it into the frames of a post, average it with the peer's, apply. `of_must`: its time
// over that of the bytes that these four have to read and write, at the rate of the copy; the goal
// is at most 1.3. (Of arrays of 20 MB nothing much survives in a cache from one to the next.)
void averaging_call(benchmark::State& state) {
  constexpr uint64_t kLarge = 100'000'000;
  constexpr uint64_t kPart = kLarge / kParts, kPiece = 65536;  // values of a frame
  const auto encoding = static_cast<Encoding>(state.range(0));
  Model model(64, Encoding::kFloat32, kLarge);
  const uint64_t room = packed_room(kLarge);
  const size_t bytes = encoded_bytes(encoding, room);
  const Memory<float> snapshot(room, 1.0F), mean(room, 1.0F), ema(kLarge, 0.0F);
  const Memory<std::byte> own(bytes, std::byte{0}), frames(bytes, std::byte{0});
  const Memory<std::byte> peer(bytes, std::byte{0x3F});
  std::vector<uint64_t> visited(model.blocks / 64 + 1, 0);
  const bool lossy = !lossless(encoding);
  const std::byte* const mine =
      lossy ? own.data() : reinterpret_cast<const std::byte*>(snapshot.data());
  const ApplyArrays arrays = {snapshot.data(), mean.data(), lossy ? mine : nullptr,
                              encoding,        ema.data(),  visited.data()};
  const float weights[2] = {1, 1};
  Limit limit(state, threads_of(state, 1));
  const Execution& on = limit.execution();
  for (auto _ : state) {
    limit.time([&] {
      cpu().partition_pack(model.table, model.subset, {encoding}, snapshot.data(),
                           lossy ? own.data() : nullptr, on);
      const uint64_t count = cpu().subset_elements(model.table, model.subset);
      for (uint64_t first = 0; first < count; first += kPiece) {
        const uint64_t some = std::min(kPiece, count - first);
        const size_t at = encoded_bytes(encoding, first);
        std::memcpy(frames.data() + at, mine + at, encoded_bytes(encoding, some));
        const std::byte* const values[2] = {mine + at, peer.data() + at};
        uint64_t not_finite = 0;
        cpu().average({values, weights, 2, encoding}, some, mean.data() + first, &not_finite, on);
      }
      cpu().apply(model.table, model.subset, {}, arrays, on);
    });
    model.rotate();
  }
  const uint64_t words = kPart * sizeof(float), wire = encoded_bytes(encoding, kPart);
  const uint64_t packed = 2 * words + (lossy ? wire : 0), averaged = 2 * wire + words;
  const uint64_t must = packed + 2 * wire + averaged + 6 * words + (lossy ? wire : 0);
  limit.report(must);
  state.counters["of_must"] = 1.0 / state.counters["of_limit"].value;
}
BENCHMARK(averaging_call)
    ->Name("AveragingCall/encoding/threads")
    ->ArgsProduct({{0, 1, 3}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace asyncmesh::kernels::bench
