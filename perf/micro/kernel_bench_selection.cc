// Explicit indices: the largest changes, values at indices, index streams.
//
// Look: TopChange   `of_limit` counts two passes over w and reference, more than one pass takes;
//                   `vs_peer` is std::nth_element over the finished scores, which yields no
//                   indices.
//                   `vs_normal`, of other values than normal ones, is the time over theirs.
//       TopChangeAgain, with the last call's threshold as a guess.
//       Index...    `of_limit` counts whole cache lines, as memory moves them.
//       ...Indices  `bits_per_index`, and the entropy of a random selection beside it.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernel_bench_limit.h"
#include "kernel_bench_memory.h"

namespace asyncmesh::kernels::bench {
namespace {

constexpr uint64_t kElements = 100'000'000;

// Argument `values`.
enum class Values {
  kNormal,
  kEqual,
  kZero,
  kOneHuge,
  kSubnormal,
  kAscending,
  kDescending,
  kTwo,
  kNotFinite
};
constexpr const char* kNames[] = {"normal",    "equal",      "zero", "one_huge",  "subnormal",
                                  "ascending", "descending", "two",  "not_finite"};

class Random {
 public:
  uint32_t next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint32_t>(state_ >> 32);
  }
  // Near enough to a normal distribution.
  float normal() {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31F;
    return sum;
  }

 private:
  uint64_t state_ = 1;
};

// The absolute values are the scores.
void fill(const Memory<float>& w, Values values) {
  Random random;
  const auto count = static_cast<float>(w.size());
  for (uint64_t i = 0; i < w.size(); ++i) {
    const float normal = random.normal(), at = static_cast<float>(i) / count;
    switch (values) {
      case Values::kNormal:
        w[i] = normal;
        break;
      case Values::kEqual:
        w[i] = 1;
        break;
      case Values::kZero:
        w[i] = 0;
        break;
      case Values::kOneHuge:
        w[i] = i == w.size() / 2 ? 1e30F : 0.0F;
        break;
      case Values::kSubnormal:
        w[i] = normal * 1e-39F;
        break;
      case Values::kAscending:
        w[i] = at;
        break;
      case Values::kDescending:
        w[i] = 1 - at;
        break;
      case Values::kTwo:
        w[i] = normal > 0.9F ? 2.0F : 1.0F;
        break;
      case Values::kNotFinite:
        w[i] = normal > 0 ? std::numeric_limits<float>::quiet_NaN() : normal;
        break;
    }
  }
}

// A change from zero, and what top_change needs.
struct Selection {
  Selection(uint64_t elements, uint64_t selected, Values values)
      : k(selected),
        w(elements, 0.0F),
        reference(elements, 0.0F),
        indices(k, 0U),
        workspace(cpu().top_change_workspace(elements, k), std::byte{0}) {
    fill(w, values);
  }
  void run(const Execution& on) {
    threshold = {};
    run_again(on);
  }
  // With the last threshold as a guess.
  void run_again(const Execution& on) {
    cpu().top_change({table, reference.data()}, k, &threshold, indices.data(), workspace.data(),
                     on);
  }

  uint64_t k;
  Threshold threshold;
  Memory<float> w, reference;
  Memory<uint32_t> indices;
  Memory<std::byte> workspace;
  TensorView tensor = {w.data(), w.size(), 0};
  ParameterTable table = {&tensor, 1, Encoding::kFloat32};
};

double nth_element_seconds(const Memory<float>& w, uint64_t k) {
  const Memory<float> scores(w.size(), 0.0F);
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < w.size(); ++i) scores[i] = std::fabs(w[i]);
    const double start = seconds_now();
    std::nth_element(scores.data(), scores.data() + k - 1, scores.data() + w.size(),
                     std::greater<>());
    benchmark::ClobberMemory();
    best = std::min(best, seconds_now() - start);
  }
  return best;
}

// Beside nth_element over the same values, or beside normally distributed ones.
void top_change(benchmark::State& state) {
  const uint64_t elements = static_cast<uint64_t>(state.range(0)) * 1'000'000;
  const uint64_t k = elements * static_cast<uint64_t>(state.range(1)) / 1000;
  const auto values = static_cast<Values>(state.range(2));
  const auto threads = static_cast<uint32_t>(state.range(3));
  Selection selection(elements, k, values);
  Limit limit(state, threads);
  if (values == Values::kNormal) {
    const double peer = nth_element_seconds(selection.w, k);
    for (auto _ : state) limit.time([&] { selection.run(limit.execution()); });
    state.counters["vs_peer"] = peer / limit.seconds();
  } else {
    Selection normal(elements, k, Values::kNormal);
    std::vector<double> usual;
    for (auto _ : state) {
      const double start = seconds_now();
      normal.run(limit.execution());
      usual.push_back(seconds_now() - start);
      limit.time([&] { selection.run(limit.execution()); });
    }
    std::sort(usual.begin(), usual.end());
    state.counters["vs_normal"] = limit.seconds() / usual[usual.size() / 2];
    state.SetLabel(kNames[state.range(2)]);
  }
  limit.report(2 * 2 * elements * sizeof(float));
}
BENCHMARK(top_change)
    ->Name("TopChange/million/permille/values/threads")
    ->ArgsProduct({{1, 100}, {1, 50, 500}, {0}, kThreads})
    ->ArgsProduct({{32}, {50}, {1, 2, 3, 4, 5, 6, 7, 8}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void top_change_again(benchmark::State& state) {
  const uint64_t elements = static_cast<uint64_t>(state.range(0)) * 1'000'000;
  const uint64_t k = elements * static_cast<uint64_t>(state.range(1)) / 1000;
  Selection selection(elements, k, Values::kNormal);
  Limit limit(state, static_cast<uint32_t>(state.range(2)));
  for (auto _ : state) limit.time([&] { selection.run_again(limit.execution()); });
  limit.report(2 * 2 * elements * sizeof(float));
}
BENCHMARK(top_change_again)
    ->Name("TopChangeAgain/million/permille/threads")
    ->ArgsProduct({{1, 100}, {1, 50, 500}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

// So many per mille of the elements, at random.
std::vector<uint32_t> random_indices(int64_t permille) {
  Random random;
  std::vector<uint32_t> indices;
  const auto below = static_cast<uint32_t>(permille * (int64_t{1} << 32) / 1000);
  for (uint32_t i = 0; i < kElements; ++i) {
    if (random.next() < below) indices.push_back(i);
  }
  return indices;
}

// Bytes of the cache lines that hold them.
uint64_t line_bytes(const std::vector<uint32_t>& indices) {
  constexpr uint32_t kLine = 64 / sizeof(float);
  uint64_t lines = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    lines += i == 0 || indices[i] / kLine != indices[i - 1] / kLine ? 1 : 0;
  }
  return lines * 64;
}

struct Indexed {
  Indexed(int64_t permille, Encoding with)
      : encoding(with),
        w(kElements, 1.0F),
        indices(random_indices(permille)),
        encoded(encoded_bytes(encoding, indices.size()), std::byte{0}) {}
  // Beside the table's lines.
  uint64_t bytes() const { return encoded.size() + indices.size() * sizeof(uint32_t); }

  Encoding encoding;
  Memory<float> w;
  std::vector<uint32_t> indices;
  Memory<std::byte> encoded;
  TensorView tensor = {w.data(), w.size(), 0};
  ParameterTable table = {&tensor, 1, Encoding::kFloat32};
};

void index_pack(benchmark::State& state) {
  const Indexed from(state.range(0), static_cast<Encoding>(state.range(1)));
  const bool feedback = state.range(2) != 0;
  const Memory<float> reference(kElements, 0.5F);
  Limit limit(state, static_cast<uint32_t>(state.range(3)));
  for (auto _ : state) {
    limit.time([&] {
      cpu().index_pack(from.table, from.indices.data(), from.indices.size(), {from.encoding},
                       {feedback ? reference.data() : nullptr}, from.encoded.data(),
                       limit.execution());
    });
  }
  limit.report(line_bytes(from.indices) * (feedback ? 3 : 1) + from.bytes());
}
BENCHMARK(index_pack)
    ->Name("IndexPack/permille/encoding/feedback/threads")
    ->ArgsProduct({{1, 50, 500}, {0, 1, 3}, {0, 1}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void index_unpack(benchmark::State& state) {
  const Indexed to(state.range(0), static_cast<Encoding>(state.range(1)));
  Limit limit(state, static_cast<uint32_t>(state.range(2)));
  for (auto _ : state) {
    limit.time([&] {
      cpu().index_unpack(to.table, to.indices.data(), to.indices.size(), to.encoding,
                         to.encoded.data(), limit.execution());
    });
  }
  limit.report(line_bytes(to.indices) * 2 + to.bytes());
}
BENCHMARK(index_unpack)
    ->Name("IndexUnpack/permille/encoding/threads")
    ->ArgsProduct({{1, 50, 500}, {0, 1, 3}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void index_accumulate(benchmark::State& state) {
  const Indexed to(state.range(0), static_cast<Encoding>(state.range(1)));
  Limit limit(state, static_cast<uint32_t>(state.range(2)));
  for (auto _ : state) {
    limit.time([&] {
      cpu().index_accumulate(to.table, to.indices.data(), to.indices.size(), to.encoding,
                             to.encoded.data(), 0.5F, limit.execution());
    });
  }
  limit.report(line_bytes(to.indices) * 2 + to.bytes());
}
BENCHMARK(index_accumulate)
    ->Name("IndexAccumulate/permille/encoding/threads")
    ->ArgsProduct({{1, 50, 500}, {0, 1, 3}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

struct Stream {
  explicit Stream(int64_t permille)
      : indices(random_indices(permille)),
        words(index_stream_bound(indices.size()) / sizeof(uint32_t), 0U) {}
  std::byte* stream() const { return reinterpret_cast<std::byte*>(words.data()); }
  void encode(const Execution& on) {
    cpu().encode_indices(indices.data(), indices.size(), stream(), &bytes, on);
  }
  void report(benchmark::State& state, Limit& limit) const {
    limit.report(indices.size() * sizeof(uint32_t) + bytes);
    const auto count = static_cast<double>(indices.size());
    const double p = count / static_cast<double>(kElements);
    state.counters["bits_per_index"] = 8 * static_cast<double>(bytes) / count;
    state.counters["entropy"] = -std::log2(p) - (1 - p) / p * std::log2(1 - p);
  }

  std::vector<uint32_t> indices;
  Memory<uint32_t> words;
  uint64_t bytes = 0;
};

void encode_indices(benchmark::State& state) {
  Stream stream(state.range(0));
  Limit limit(state, static_cast<uint32_t>(state.range(1)));
  for (auto _ : state) limit.time([&] { stream.encode(limit.execution()); });
  stream.report(state, limit);
}
BENCHMARK(encode_indices)
    ->Name("EncodeIndices/permille/threads")
    ->ArgsProduct({{1, 50, 500}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void decode_indices(benchmark::State& state) {
  Stream stream(state.range(0));
  stream.encode({});
  const Memory<uint32_t> indices(stream.indices.size(), 0U);
  uint32_t valid = 0;
  Limit limit(state, static_cast<uint32_t>(state.range(1)));
  for (auto _ : state) {
    limit.time([&] {
      cpu().decode_indices(stream.stream(), stream.bytes, indices.size(), kElements, indices.data(),
                           &valid, limit.execution());
    });
  }
  if (valid != 1) state.SkipWithError("not decoded");
  stream.report(state, limit);
}
BENCHMARK(decode_indices)
    ->Name("DecodeIndices/permille/threads")
    ->ArgsProduct({{1, 50, 500}, kThreads})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace asyncmesh::kernels::bench
