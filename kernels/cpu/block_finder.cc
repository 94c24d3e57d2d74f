#include "kernels/cpu/block_finder.h"

namespace asyncmesh::kernels {

BlockFinder::BlockFinder(const ParameterTable& table, const Subset& subset) noexcept
    : tensors_(table.tensors), tensor_count_(table.size), granularity_(subset.granularity) {
  while (((subset.blocks - 1) >> shift_) >= kBuckets) ++shift_;
  const uint64_t buckets = ((subset.blocks - 1) >> shift_) + 1;
  uint32_t tensor = 0;
  uint64_t element = 0;
  for (uint64_t bucket = 0; bucket < buckets; ++bucket) {
    while (tensor + 1 < tensor_count_ && tensors_[tensor + 1].first_block <= bucket << shift_) {
      element += tensors_[tensor].count;
      ++tensor;
    }
    first_tensor_[bucket] = tensor;
    first_element_[bucket] = element;
  }
}

}  // namespace asyncmesh::kernels
