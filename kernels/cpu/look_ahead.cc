// look_ahead, nesterov and table_ema: a few operations on each element of whole arrays.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/look_ahead.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include <hwy/cache_control.h>

#include "kernels/cpu/codec-inl.h"
#include "kernels/cpu/dense.h"
#include "kernels/cpu/element_cursor.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/streaming.h"
#include "kernels/element.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

template <class V, class D>
HWY_INLINE V looked_ahead_vector(D d, float gamma, V w, V previous) {
  return hn::Add(w, hn::Mul(hn::Set(d, gamma), hn::Sub(w, previous)));
}

template <bool kStream>
HWY_INLINE void look_ahead_run(const float* w, const float* previous, uint64_t count, float gamma,
                               float* point) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto next =
        looked_ahead_vector(d, gamma, hn::LoadU(d, w + i), hn::LoadU(d, previous + i));
    Float32::store<kStream>(d, next, reinterpret_cast<std::byte*>(point + i));
  }
  for (; i < count; ++i) point[i] = looked_ahead(gamma, w[i], previous[i]);
}

void look_ahead_here(const float* w, const float* previous, uint64_t count, float gamma,
                     float* point, bool stream) {
  if (!stream) return look_ahead_run<false>(w, previous, count, gamma, point);
  look_ahead_run<true>(w, previous, count, gamma, point);
  hwy::FlushStream();
}

void nesterov_here(float* w, float* previous, const float* gradient, uint64_t count,
                   const NesterovFactors& factors) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto old = hn::LoadU(d, w + i);
    const auto ahead = looked_ahead_vector(d, factors.gamma, old, hn::LoadU(d, previous + i));
    const auto step = hn::Mul(hn::Set(d, factors.step), hn::LoadU(d, gradient + i));
    hn::StoreU(hn::Sub(ahead, step), d, w + i);
    hn::StoreU(old, d, previous + i);
  }
  for (; i < count; ++i) {
    const float old = w[i];
    w[i] = nesterov_element(factors, old, previous[i], gradient[i]);
    previous[i] = old;
  }
}

struct EmaRun {
  const std::byte* w;
  uint64_t count;
  const AverageFactors& factors;
  float* average;

  template <class Format>
  HWY_INLINE void run() const {
    const hn::ScalableTag<float> d;
    const size_t lanes = hn::Lanes(d);
    const auto keep = hn::Set(d, factors.keep), gain = hn::Set(d, factors.gain);
    uint64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto kept = hn::Mul(keep, hn::LoadU(d, average + i));
      const auto gained = hn::Mul(gain, Format::load(d, w + i * Format::kBytes));
      hn::StoreU(hn::Add(kept, gained), d, average + i);
    }
    for (; i < count; ++i) {
      average[i] = averaged_element(factors, average[i], Format::load1(w + i * Format::kBytes));
    }
  }
};

// Elements [begin, end) of the table.
void table_ema_here(const ParameterTable& table, uint64_t begin, uint64_t end,
                    const AverageFactors& factors, float* average) {
  ElementCursor cursor(table);
  for (uint64_t at = begin; at < end;) {
    cursor.seek(at);
    const uint64_t next = cursor.end() < end ? cursor.end() : end;
    with_format(table.storage, EmaRun{cursor.at(at), next - at, factors, average + at});
    at = next;
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(look_ahead_here);
HWY_EXPORT(nesterov_here);
HWY_EXPORT(table_ema_here);

}  // namespace

void cpu_look_ahead(const float* w, const float* previous, uint64_t count, float gamma,
                    float* point, const Execution& on) {
  // Not into one of its own operands, whose lines are there already.
  const bool stream =
      point != w && point != previous && worth_streaming(point, count * sizeof(float));
  spread_elements(on.workers, count, [&](uint64_t begin, uint64_t end) {
    HWY_DYNAMIC_DISPATCH(look_ahead_here)
    (w + begin, previous + begin, end - begin, gamma, point + begin, stream);
  });
}

void cpu_nesterov(float* w, float* previous, const float* gradient, uint64_t count, float gamma,
                  float lr, const Execution& on) {
  const NesterovFactors factors(gamma, lr);
  spread_elements(on.workers, count, [&](uint64_t begin, uint64_t end) {
    HWY_DYNAMIC_DISPATCH(nesterov_here)
    (w + begin, previous + begin, gradient + begin, end - begin, factors);
  });
}

void cpu_table_ema(const ParameterTable& table, float decay, float* average, const Execution& on) {
  const AverageFactors factors(decay);
  spread_elements(on.workers, table_elements(table), [&](uint64_t begin, uint64_t end) {
    HWY_DYNAMIC_DISPATCH(table_ema_here)(table, begin, end, factors, average);
  });
}

}  // namespace asyncmesh::kernels
#endif
