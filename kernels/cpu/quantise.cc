#include "kernels/cpu/quantise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantise.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include <hwy/cache_control.h>

#include "kernels/cpu/dense.h"
#include "kernels/cpu/quantise-inl.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/streaming.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

void quantise_here(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                   std::byte* out, bool stream) {
  if (!stream) return quantise_run(values, count, wire, first, out);
  quantise_run<true>(values, count, wire, first, out);
  hwy::FlushStream();
}

void dequantise_here(const std::byte* encoded, Encoding encoding, uint64_t first, uint64_t count,
                     float* out, bool stream) {
  if (!stream) return dequantise_run(encoded, encoding, first, count, out);
  dequantise_run<true>(encoded, encoding, first, count, out);
  hwy::FlushStream();
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(quantise_here);
HWY_EXPORT(dequantise_here);

static_assert(kGroup == 1024);  // spread_elements cuts at multiples of it

}  // namespace

void quantise_values(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                     std::byte* out, bool stream) {
  HWY_DYNAMIC_DISPATCH(quantise_here)(values, count, wire, first, out, stream);
}

void dequantise_values(const std::byte* encoded, Encoding encoding, uint64_t first, uint64_t count,
                       float* out, bool stream) {
  HWY_DYNAMIC_DISPATCH(dequantise_here)(encoded, encoding, first, count, out, stream);
}

void cpu_quantise(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                  std::byte* out, const Execution& on) {
  const bool stream = worth_streaming(out, encoded_bytes(wire.encoding, count));
  spread_elements(on.workers, count, [&](uint64_t begin, uint64_t end) {
    quantise_values(values + begin, end - begin, wire, first + begin,
                    out + encoded_bytes(wire.encoding, begin), stream);
  });
}

void cpu_dequantise(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                    const Execution& on) {
  const bool stream = worth_streaming(out, count * sizeof(float));
  spread_elements(on.workers, count, [&](uint64_t begin, uint64_t end) {
    dequantise_values(values, encoding, begin, end - begin, out + begin, stream);
  });
}

}  // namespace asyncmesh::kernels
#endif
