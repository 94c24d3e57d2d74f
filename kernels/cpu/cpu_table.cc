#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/rows.h"

namespace asyncmesh::kernels {
namespace {

void cpu_nadamw(float* w, const float* gradient, float* m, float* v, uint64_t count,
                const NadamwArgs& args, float* mirror, void* /*stream*/) {
  rows().nadamw({w, gradient, m, v, mirror, count}, NadamwFactors(args));
}

void cpu_sum_of_squares(const float* values, uint64_t count, double* sums, void* /*stream*/) {
  sums[0] = rows().sum_of_squares(values, count);
}

void cpu_encode(const float* values, uint64_t count, Encoding encoding, std::byte* out,
                void* /*stream*/) {
  rows().encode(values, count, encoding, out);
}

void cpu_decode(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                void* /*stream*/) {
  rows().decode(values, count, encoding, out);
}

}  // namespace

const Table& cpu() {
  static constexpr Table kTable = {"cpu",     subset_elements, cpu_pack,           cpu_average,
                                   cpu_apply, cpu_nadamw,      cpu_sum_of_squares, cpu_encode,
                                   cpu_decode};
  return kTable;
}

}  // namespace asyncmesh::kernels
