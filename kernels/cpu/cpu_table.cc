#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/rows.h"

namespace asyncmesh::kernels {
namespace {

void cpu_nadamw(const NadamwArrays& arrays, uint64_t count, const NadamwArgs& args,
                const Execution& /*on*/) {
  rows().nadamw({static_cast<float*>(arrays.w), static_cast<const float*>(arrays.gradient),
                 arrays.m, arrays.v, static_cast<float*>(arrays.mirror), count},
                NadamwFactors(args));
}

void cpu_sum_of_squares(const float* values, uint64_t count, double* sums,
                        const Execution& /*on*/) {
  sums[0] = rows().sum_of_squares(values, count);
}

void cpu_quantise(const float* values, uint64_t count, const Wire& wire, uint64_t /*first*/,
                  std::byte* out, const Execution& /*on*/) {
  rows().encode(values, count, wire.encoding, out);
}

void cpu_dequantise(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                    const Execution& /*on*/) {
  rows().decode(values, count, encoding, out);
}

}  // namespace

const Table& cpu() {
  static constexpr Table kTable = {
      .name = "cpu",
      .subset_elements = subset_elements,
      .partition_pack = cpu_partition_pack,
      .partition_unpack = cpu_partition_unpack,
      .average = cpu_average,
      .apply = cpu_apply,
      .top_change_workspace = nullptr,
      .top_change = nullptr,
      .index_pack = nullptr,
      .index_unpack = nullptr,
      .index_accumulate = nullptr,
      .encode_indices = nullptr,
      .decode_indices = nullptr,
      .nadamw = cpu_nadamw,
      .look_ahead = nullptr,
      .nesterov = nullptr,
      .table_ema = nullptr,
      .sum_of_squares = cpu_sum_of_squares,
      .compare = nullptr,
      .quantise = cpu_quantise,
      .dequantise = cpu_dequantise,
  };
  return kTable;
}

}  // namespace asyncmesh::kernels
