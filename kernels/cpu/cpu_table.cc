#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/dense.h"
#include "kernels/cpu/selection_cpu.h"

namespace asyncmesh::kernels {
const Table& cpu() {
  static constexpr Table kTable = {
      .name = "cpu",
      .subset_elements = subset_elements,
      .partition_pack = cpu_partition_pack,
      .partition_unpack = cpu_partition_unpack,
      .average = cpu_average,
      .apply = cpu_apply,
      .top_change_workspace = cpu_top_change_workspace,
      .top_change = cpu_top_change,
      .index_pack = cpu_index_pack,
      .index_unpack = cpu_index_unpack,
      .index_accumulate = cpu_index_accumulate,
      .encode_indices = cpu_encode_indices,
      .decode_indices = cpu_decode_indices,
      .nadamw = cpu_nadamw,
      .look_ahead = cpu_look_ahead,
      .nesterov = cpu_nesterov,
      .table_ema = cpu_table_ema,
      .sum_of_squares = cpu_sum_of_squares,
      .compare = cpu_compare,
      .quantise = cpu_quantise,
      .dequantise = cpu_dequantise,
  };
  return kTable;
}

}  // namespace asyncmesh::kernels
