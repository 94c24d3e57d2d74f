#include "kernels/cpu/block_finder.h"

namespace asyncmesh::kernels {

BlockFinder::BlockFinder(const TensorView* tensors, uint32_t tensor_count,
                         const Subset& subset) noexcept
    : tensors_(tensors), tensor_count_(tensor_count), granularity_(subset.granularity) {
  while (((subset.blocks - 1) >> shift_) >= kBuckets) ++shift_;
  const uint64_t buckets = ((subset.blocks - 1) >> shift_) + 1;
  uint32_t tensor = 0;
  uint64_t element = 0;
  for (uint64_t bucket = 0; bucket < buckets; ++bucket) {
    while (tensor + 1 < tensor_count && tensors[tensor + 1].first_block <= bucket << shift_) {
      element += tensors[tensor].count;
      ++tensor;
    }
    first_tensor_[bucket] = tensor;
    first_element_[bucket] = element;
  }
}

}  // namespace asyncmesh::kernels
