// Compiled with -mavx2 -mf16c where the compiler knows them; elsewhere it only says that it is not
// there. Nothing here may run before rows.cc has asked the machine.
#ifdef __AVX2__
#define ASYNCMESH_ISA avx2
#include "kernels/cpu/rows_impl.h"
#else
#include "kernels/cpu/rows.h"
#endif

namespace asyncmesh::kernels {

#ifdef __AVX2__
static constexpr Rows kAvx2Rows = avx2::make_rows("avx2");
extern const Rows* const kCompiledAvx2Rows;
const Rows* const kCompiledAvx2Rows = &kAvx2Rows;
#else
extern const Rows* const kCompiledAvx2Rows;
const Rows* const kCompiledAvx2Rows = nullptr;
#endif

}  // namespace asyncmesh::kernels
