// Compiled with -mavx2 -mf16c where the compiler knows them; elsewhere it only says that it is not
// there.
#ifdef __AVX2__
#define ASYNCMESH_ISA avx2
#include <cpuid.h>

#include "kernels/cpu/rows_impl.h"
#else
#include "kernels/cpu/rows.h"
#endif

namespace asyncmesh::kernels {

#ifdef __AVX2__
const Rows* avx2_rows() noexcept {
  static constexpr Rows kRows = avx2::make_rows("avx2");
  // F16C has a bit of its own, that __builtin_cpu_supports of clang 14 does not know.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") ? &kRows : nullptr;
}
#else
const Rows* avx2_rows() noexcept { return nullptr; }
#endif

}  // namespace asyncmesh::kernels
