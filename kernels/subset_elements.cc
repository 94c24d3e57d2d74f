#include "kernels/cpu/cpu_kernels.h"
#include "kernels/permutation.h"

namespace asyncmesh::kernels {

// All blocks are full but the last ones of tensors: only those are looked up.
uint64_t subset_elements(const ParameterTable& table, const Subset& subset) {
  const Permutation permutation(subset.key, subset.blocks);
  uint64_t elements = subset_blocks(subset) * subset.granularity;
  for (uint32_t i = 0; i < table.size; ++i) {
    const TensorView& tensor = table.tensors[i];
    const uint64_t tail = tensor.count % subset.granularity;
    if (tail == 0) continue;
    const uint64_t last = tensor.first_block + tensor.count / subset.granularity;
    if (in_subset(subset, permutation.forward(last))) elements -= subset.granularity - tail;
  }
  return elements;
}

}  // namespace asyncmesh::kernels
