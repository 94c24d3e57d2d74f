#include "kernels/cpu/rows.h"

namespace asyncmesh::kernels {

const Rows& rows() noexcept {
  static const Rows& chosen = avx2_rows() != nullptr ? *avx2_rows() : baseline_rows();
  return chosen;
}

}  // namespace asyncmesh::kernels
