#include "kernels/cpu/block_finder.h"

namespace asyncmesh::kernels {

BlockFinder::BlockFinder(const ParameterTable& table, const Subset& subset) noexcept
    : tensors_(table.tensors), tensor_count_(table.size), granularity_(subset.granularity) {
  while (((subset.blocks - 1) >> shift_) >= kBuckets) ++shift_;
  const uint64_t buckets = ((subset.blocks - 1) >> shift_) + 1;
  uint32_t tensor = 0;
  uint64_t element = 0;
  for (uint64_t bucket = 0; bucket < buckets; ++bucket) {
    while (next_block(tensor) <= bucket << shift_) element += tensors_[tensor++].count;
    starts_[bucket] = start_of(tensor, element);
  }
}

BlockPlace BlockFinder::find_after(const Start& start, uint64_t block) const noexcept {
  uint32_t tensor = start.tensor;
  uint64_t element = start.element;
  while (next_block(tensor) <= block) element += tensors_[tensor++].count;
  return place(start_of(tensor, element), block);
}

}  // namespace asyncmesh::kernels
