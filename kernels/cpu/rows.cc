#include "kernels/cpu/rows.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace asyncmesh::kernels {

extern const Rows* const kCompiledAvx2Rows;  // rows_avx2.cc; null where it was not compiled

namespace {

bool machine_has_avx2() noexcept {
#if defined(__x86_64__)
  // F16C has a bit of its own, which __builtin_cpu_supports of clang 14 does not know.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

}  // namespace

const Rows* avx2_rows() noexcept {
  return kCompiledAvx2Rows != nullptr && machine_has_avx2() ? kCompiledAvx2Rows : nullptr;
}

const Rows& rows() noexcept {
  static const Rows& chosen = []() -> const Rows& {
    const Rows* avx2 = avx2_rows();
    return avx2 != nullptr ? *avx2 : baseline_rows();
  }();
  return chosen;
}

}  // namespace asyncmesh::kernels
