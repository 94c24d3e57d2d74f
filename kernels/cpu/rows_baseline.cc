#define ASYNCMESH_ISA baseline
#include "kernels/cpu/rows_impl.h"

namespace asyncmesh::kernels {

const Rows& baseline_rows() noexcept {
  static constexpr Rows kRows = baseline::make_rows("baseline");
  return kRows;
}

}  // namespace asyncmesh::kernels
