#include <atomic>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/average.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include <hwy/cache_control.h>

#include "kernels/cpu/average.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/float_environment.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/quantise-inl.h"
#include "kernels/cpu/spread.h"
#include "kernels/scaled.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

template <class D>
HWY_INLINE void write_mean(D d, hn::VFromD<D> value, bool streams, float* at) {
  if (streams) {
    hn::Stream(value, d, at);
  } else {
    hn::StoreU(value, d, at);
  }
}

// One value; returns whether it is finite.
template <class Format>
HWY_INLINE bool average_single(const Taking& from, uint64_t i, float* mean) {
  float sum = from.weights[0] * Format::load1(from.values[0] + i * Format::kBytes);
  for (uint32_t r = 1; r < from.size; ++r) {
    const float term = from.weights[r] * Format::load1(from.values[r] + i * Format::kBytes);
    sum = sum + term;
  }
  mean[i] = sum * from.reciprocal;
  return (bits_of(sum) & kInfinityBits) != kInfinityBits;
}

// All members at once, four vectors wide, so that the sums stay in registers. Returns whether all
// sums are finite: where a contribution is not, the sum is not either. (It may also have
// overflowed; that is found out afterwards.)
template <class Format, bool kStreams>
bool average_words(const Taking& from, uint64_t begin, uint64_t end, float* mean) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const uint64_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  const auto reciprocal = hn::Set(d, from.reciprocal);
  auto largest = hn::Zero(di);
  uint64_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    const uint64_t step = lanes * Format::kBytes;
    const std::byte* at = from.values[0] + i * Format::kBytes;
    auto weight = hn::Set(d, from.weights[0]);
    auto a = hn::Mul(weight, Format::load(d, at));
    auto b = hn::Mul(weight, Format::load(d, at + step));
    auto c = hn::Mul(weight, Format::load(d, at + 2 * step));
    auto e = hn::Mul(weight, Format::load(d, at + 3 * step));
    for (uint32_t r = 1; r < from.size; ++r) {
      at = from.values[r] + i * Format::kBytes;
      weight = hn::Set(d, from.weights[r]);
      a = hn::Add(a, hn::Mul(weight, Format::load(d, at)));
      b = hn::Add(b, hn::Mul(weight, Format::load(d, at + step)));
      c = hn::Add(c, hn::Mul(weight, Format::load(d, at + 2 * step)));
      e = hn::Add(e, hn::Mul(weight, Format::load(d, at + 3 * step)));
    }
    const auto bits = [&](auto sum) HWY_ATTR { return hn::And(hn::BitCast(di, sum), magnitude); };
    largest = hn::Max(largest, hn::Max(hn::Max(bits(a), bits(b)), hn::Max(bits(c), bits(e))));
    write_mean(d, hn::Mul(a, reciprocal), kStreams, mean + i);
    write_mean(d, hn::Mul(b, reciprocal), kStreams, mean + i + lanes);
    write_mean(d, hn::Mul(c, reciprocal), kStreams, mean + i + 2 * lanes);
    write_mean(d, hn::Mul(e, reciprocal), kStreams, mean + i + 3 * lanes);
  }
  bool finite =
      hn::AllFalse(di, hn::Gt(largest, hn::Set(di, static_cast<int32_t>(kInfinityBits - 1))));
  for (; i < end; ++i) finite = average_single<Format>(from, i, mean) && finite;
  return finite;
}

// Of int4, a member's share of a row is half a cache line: hardware prefetchers are too late for so
// many streams that slow (8 members: 1.8 times as fast so).
constexpr size_t kInt4Ahead = 1024;  // bytes of a member

// A row of a scaled encoding: what a member adds stays in registers too. `first`: of its values.
// Returns the largest magnitudes of the sums, as integers.
template <Encoding kEncoding>
HWY_INLINE hn::VFromD<RowIntTag> average_row(const Taking& from, uint64_t first, float* mean,
                                             bool streams) {
  const RowTag d;
  const RowIntTag di;
  const uint64_t group = first / kGroup * kGroupBytes<kEncoding>, row = first % kGroup / kScaled;
  const uint64_t codes = group + kScaleBytes + row * kRowBytes<kEncoding>;
  RowVector sums[kRowVectors];
  for (uint32_t r = 0; r < from.size; ++r) {
    const float scale = Float32::load1(from.values[r] + group + row * sizeof(float));
    const RowTerms<kEncoding> terms(from.values[r] + codes, scale, from.weights[r]);
    if constexpr (kEncoding == Encoding::kInt4) prefetch_line(from.values[r] + codes + kInt4Ahead);
    for (size_t i = 0; i < kRowVectors; ++i) {
      sums[i] = r == 0 ? terms.vector(i) : hn::Add(sums[i], terms.vector(i));
    }
  }
  const auto reciprocal = hn::Set(d, from.reciprocal);
  auto largest = hn::Zero(di);
  for (size_t i = 0; i < kRowVectors; ++i) {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, sums[i]), hn::Set(di, 0x7FFFFFFF)));
    const auto value = RowDecoder<kEncoding>::in_order(hn::Mul(sums[i], reciprocal));
    write_mean(d, value, streams, mean + i * kRowLanes);
  }
  return largest;
}

// The last row of a run, of `count` values.
template <Encoding kEncoding>
HWY_NOINLINE bool average_short_row(const Taking& from, uint64_t first, uint64_t count,
                                    float* mean) {
  HWY_ALIGN float sums[kScaled];
  HWY_ALIGN float values[kScaled];
  uint32_t largest = 0;
  for (uint32_t r = 0; r < from.size; ++r) {
    descale_run<kEncoding>(from.values[r], first, count, values);
    for (uint64_t i = 0; i < count; ++i) {
      const float term = from.weights[r] * values[i];
      sums[i] = r == 0 ? term : sums[i] + term;
    }
  }
  for (uint64_t i = 0; i < count; ++i) {
    largest = HWY_MAX(largest, bits_of(sums[i]) & 0x7FFFFFFFU);
    mean[i] = sums[i] * from.reciprocal;
  }
  return largest < kInfinityBits;
}

template <Encoding kEncoding>
bool average_rows(const Taking& from, uint64_t begin, uint64_t end, float* mean) {
  const RowIntTag di;
  auto largest = hn::Zero(di);
  uint64_t i = begin;
  for (; end - i >= kScaled; i += kScaled) {
    largest = hn::Max(largest, average_row<kEncoding>(from, i, mean + i, from.streams));
  }
  const auto infinity = hn::Set(di, static_cast<int32_t>(kInfinityBits - 1));
  const bool finite = hn::AllFalse(di, hn::Gt(largest, infinity));
  if (i != end && !average_short_row<kEncoding>(from, i, end - i, mean + i)) return false;
  return finite;
}

struct AverageVisitor {
  const Taking& from;
  uint64_t begin;
  uint64_t end;
  float* mean;

  template <class Format>
  HWY_INLINE bool run() const {
    return from.streams ? average_words<Format, true>(from, begin, end, mean)
                        : average_words<Format, false>(from, begin, end, mean);
  }
};

// Values [begin, end), of which `begin` is a multiple of kGroup. False: some sum is not finite.
bool average_here(const Taking& from, uint64_t begin, uint64_t end, float* mean) {
  const DefaultFloatEnvironment environment;
  bool finite;
  if (from.encoding == Encoding::kInt8) {
    finite = average_rows<Encoding::kInt8>(from, begin, end, mean);
  } else if (from.encoding == Encoding::kInt4) {
    finite = average_rows<Encoding::kInt4>(from, begin, end, mean);
  } else {
    finite = with_format(from.encoding, AverageVisitor{from, begin, end, mean});
  }
  if (from.streams) hwy::FlushStream();
  return finite;
}

// Whether the contribution `values` is finite.
bool all_finite_here(const std::byte* values, Encoding encoding, uint64_t count) {
  HWY_ALIGN float decoded[kGroup];
  for (uint64_t first = 0; first < count; first += kGroup) {
    const uint64_t some = count - first < kGroup ? count - first : kGroup;
    dequantise_run(values, encoding, first, some, decoded);
    uint32_t largest = 0;
    for (uint64_t i = 0; i < some; ++i) {
      largest = HWY_MAX(largest, bits_of(decoded[i]) & 0x7FFFFFFFU);
    }
    if (largest >= kInfinityBits) return false;
  }
  return true;
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(average_here);
HWY_EXPORT(all_finite_here);

float reciprocal_of(const Taking& from) {
  double sum = 0;
  for (uint32_t i = 0; i < from.size; ++i) sum += static_cast<double>(from.weights[i]);
  return static_cast<float>(1.0 / sum);
}

// False: `mean` has a value that is not finite.
bool average_all(Taking& from, float* mean, const Execution& on) {
  constexpr uint64_t kCached = 2U << 20;  // floats
  constexpr uintptr_t kVector = 64;
  from.streams = from.count > kCached && reinterpret_cast<uintptr_t>(mean) % kVector == 0;
  {
    const DefaultFloatEnvironment environment;
    from.reciprocal = reciprocal_of(from);
  }
  std::atomic<bool> finite{true};
  spread_elements(on.workers, from.count, [&](uint64_t begin, uint64_t end) {
    if (!HWY_DYNAMIC_DISPATCH(average_here)(from, begin, end, mean)) {
      finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load(std::memory_order_relaxed);
}

// By decoding it all: bytes that no quantise made may overflow with finite scales.
bool all_finite(const std::byte* values, Encoding encoding, uint64_t count) {
  return HWY_DYNAMIC_DISPATCH(all_finite_here)(values, encoding, count);
}

// Drops the contributions with a value that is not finite; returns their members as bits.
[[gnu::cold]] uint64_t drop_not_finite(Taking& from) {
  const DefaultFloatEnvironment environment;
  uint64_t dropped = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < from.size; ++i) {
    if (!all_finite(from.values[i], from.encoding, from.count)) {
      dropped |= uint64_t{1} << from.members[i];
      continue;
    }
    from.values[kept] = from.values[i];
    from.weights[kept] = from.weights[i];
    from.members[kept++] = from.members[i];
  }
  from.size = kept;
  return dropped;
}

}  // namespace

uint32_t cpu_average(const Contributions& all, uint64_t count, float* mean,
                     uint64_t* not_finite_out, const Execution& on) {
  Taking from;
  from.encoding = all.encoding;
  from.count = count;
  for (uint32_t r = 0; r < (all.members < kMaxMembers ? all.members : kMaxMembers); ++r) {
    const float weight = all.weights[r];
    if (all.values[r] == nullptr || !(weight > 0) || !std::isfinite(weight)) continue;
    from.values[from.size] = all.values[r];
    from.weights[from.size] = weight;
    from.members[from.size++] = r;
  }
  *not_finite_out = 0;
  if (from.size >= 2 && average_all(from, mean, on)) return from.size;
  const uint32_t before = from.size;
  *not_finite_out = drop_not_finite(from);
  // Where all are finite, a sum overflowed and the mean stands.
  if (from.size >= 2 && from.size != before) average_all(from, mean, on);
  return from.size;
}

}  // namespace asyncmesh::kernels
#endif
