#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nadamw.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include "kernels/cpu/codec-inl.h"
#include "kernels/cpu/dense.h"
#include "kernels/cpu/spread.h"
#include "kernels/element.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

struct NoMirror {
  static constexpr size_t kBytes = 0;
  template <class D, class V>
  static HWY_INLINE void store(D, V, std::byte*) {}
  static HWY_INLINE void store1(float, std::byte*) {}
};

// nadamw_element on vectors: the same operations in the same order.
class NadamwStep {
 public:
  using Tag = hn::ScalableTag<float>;
  using Vector = hn::VFromD<Tag>;

  HWY_INLINE explicit NadamwStep(const NadamwFactors& f) : f_(f) {}

  HWY_INLINE void operator()(Vector& w, Vector gradient, Vector& m, Vector& v) const {
    const auto g = hn::Mul(gradient, set(f_.gradient_scale));
    m = hn::Add(m, hn::Mul(set(f_.first_gain), hn::Sub(g, m)));
    v = hn::Add(hn::Mul(set(f_.second_keep), v), hn::Mul(hn::Mul(set(f_.second_gain), g), g));
    const auto deviation = hn::Sqrt(hn::Mul(v, set(f_.variance)));
    const auto denominator = hn::Add(deviation, set(f_.epsilon));
    const auto ahead =
        hn::Add(hn::Mul(w, set(f_.decay)), hn::Div(hn::Mul(set(f_.gradient), g), denominator));
    w = hn::Add(ahead, hn::Div(hn::Mul(set(f_.momentum), m), denominator));
  }

 private:
  static HWY_INLINE Vector set(float value) { return hn::Set(Tag(), value); }
  NadamwFactors f_;
};

template <class Storage, class Mirror>
HWY_INLINE void nadamw_as(const NadamwArrays& arrays, uint64_t begin, uint64_t end,
                          const NadamwFactors& factors) {
  const NadamwStep::Tag d;
  const NadamwStep step(factors);
  auto* const w_at = static_cast<std::byte*>(arrays.w);
  const auto* const gradient_at = static_cast<const std::byte*>(arrays.gradient);
  auto* const mirror_at = static_cast<std::byte*>(arrays.mirror);
  float* const m_at = arrays.m;
  float* const v_at = arrays.v;
  const size_t lanes = hn::Lanes(d);
  uint64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    auto w = Storage::load(d, w_at + i * Storage::kBytes);
    auto m = hn::LoadU(d, m_at + i);
    auto v = hn::LoadU(d, v_at + i);
    step(w, Storage::load(d, gradient_at + i * Storage::kBytes), m, v);
    Storage::store(d, w, w_at + i * Storage::kBytes);
    hn::StoreU(m, d, m_at + i);
    hn::StoreU(v, d, v_at + i);
    Mirror::store(d, w, mirror_at + i * Mirror::kBytes);
  }
  for (; i < end; ++i) {
    float w = Storage::load1(w_at + i * Storage::kBytes);
    const float gradient = Storage::load1(gradient_at + i * Storage::kBytes);
    nadamw_element(factors, w, gradient, m_at[i], v_at[i]);
    Storage::store1(w, w_at + i * Storage::kBytes);
    Mirror::store1(w, mirror_at + i * Mirror::kBytes);
  }
}

struct NadamwCall {
  const NadamwArrays& arrays;
  uint64_t begin, end;
  const NadamwFactors& factors;
};

template <class Storage>
struct NadamwMirrors {
  const NadamwCall& call;
  template <class Mirror>
  HWY_INLINE void run() const {
    nadamw_as<Storage, Mirror>(call.arrays, call.begin, call.end, call.factors);
  }
};

struct NadamwStorages {
  const NadamwCall& call;
  template <class Storage>
  HWY_INLINE void run() const {
    const NadamwMirrors<Storage> mirrors = {call};
    if (call.arrays.mirror == nullptr) return mirrors.template run<NoMirror>();
    with_format(call.arrays.mirror_storage, mirrors);
  }
};

void nadamw_here(const NadamwArrays& arrays, uint64_t begin, uint64_t end,
                 const NadamwFactors& factors) {
  const NadamwCall call = {arrays, begin, end, factors};
  with_format(arrays.storage, NadamwStorages{call});
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(nadamw_here);

}  // namespace

void cpu_nadamw(const NadamwArrays& arrays, uint64_t count, const NadamwArgs& args,
                const Execution& on) {
  const NadamwFactors factors(args);
  spread_elements(on.workers, count, [&](uint64_t begin, uint64_t end) {
    HWY_DYNAMIC_DISPATCH(nadamw_here)(arrays, begin, end, factors);
  });
}

}  // namespace asyncmesh::kernels
#endif
