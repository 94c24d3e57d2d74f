#include "kernels/cuda/cuda_kernels.h"

namespace asyncmesh::kernels {

const Table* cuda() {
  static constexpr Table kTable = {"cuda",     subset_elements, cuda_pack,           cuda_average,
                                   cuda_apply, cuda_nadamw,     cuda_sum_of_squares, cuda_encode,
                                   cuda_decode};
  return &kTable;
}

}  // namespace asyncmesh::kernels
