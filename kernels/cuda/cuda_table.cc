#include "kernels/cuda/cuda_kernels.h"

namespace asyncmesh::kernels {

const Table* cuda() {
  static constexpr Table kTable = {
      .name = "cuda",
      .subset_elements = subset_elements,
      .partition_pack = cuda_partition_pack,
      .partition_unpack = nullptr,
      .average = cuda_average,
      .apply = cuda_apply,
      .top_change_workspace = nullptr,
      .top_change = nullptr,
      .index_pack = nullptr,
      .index_unpack = nullptr,
      .index_accumulate = nullptr,
      .encode_indices = nullptr,
      .decode_indices = nullptr,
      .nadamw = cuda_nadamw,
      .look_ahead = nullptr,
      .nesterov = nullptr,
      .table_ema = nullptr,
      .sum_of_squares = cuda_sum_of_squares,
      .compare = nullptr,
      .quantise = cuda_quantise,
      .dequantise = cuda_dequantise,
  };
  return &kTable;
}

}  // namespace asyncmesh::kernels
