#include "kernels/cuda/cuda_kernels.h"

namespace asyncmesh::kernels {

const Table* cuda() {
  static constexpr Table kTable = {
      .name = "cuda",
      .subset_elements = subset_elements,
      .partition_pack = cuda_partition_pack,
      .partition_unpack = cuda_partition_unpack,
      .average = cuda_average,
      .apply = cuda_apply,
      .top_change_workspace = cuda_top_change_workspace,
      .top_change = cuda_top_change,
      .index_pack = cuda_index_pack,
      .index_unpack = cuda_index_unpack,
      .index_accumulate = cuda_index_accumulate,
      .encode_indices = cuda_encode_indices,
      .decode_indices = cuda_decode_indices,
      .nadamw = cuda_nadamw,
      .look_ahead = cuda_look_ahead,
      .nesterov = cuda_nesterov,
      .table_ema = cuda_table_ema,
      .sum_of_squares = cuda_sum_of_squares,
      .compare = cuda_compare,
      .quantise = cuda_quantise,
      .dequantise = cuda_dequantise,
  };
  return &kTable;
}

}  // namespace asyncmesh::kernels
