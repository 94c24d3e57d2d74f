#include "kernels/cpu/block_finder.h"

namespace asyncmesh::kernels {

BlockFinder::BlockFinder(const ParameterTable& table, const Subset& subset) noexcept
    : tensors_(table.tensors),
      tensor_count_(table.size),
      granularity_(subset.granularity),
      block_bytes_(encoded_bytes(table.storage, subset.granularity)) {
  while (((subset.blocks - 1) >> shift_) >= kBuckets) ++shift_;
  mask_ = (uint64_t{1} << shift_) - 1;
  const bool all = tensor_count_ <= kStarts;
  const uint64_t buckets = ((subset.blocks - 1) >> shift_) + 1;
  uint64_t element = 0;
  uint32_t tensor = 0;
  if (all) starts_[0] = start_of(0, 0);
  for (uint32_t i = 0; i < buckets; ++i) {
    const uint64_t first = uint64_t{i} << shift_;
    while (next_block(tensor) <= first) {
      element += tensors_[tensor++].count;
      if (all) starts_[tensor] = start_of(tensor, element);
    }
    if (!all) starts_[i] = start_of(tensor, element);
    Bucket& bucket = buckets_[i];
    bucket.start = all ? tensor : i;
    for (uint32_t k = 0; k < kNext; ++k) {
      bucket.next[k] = all ? next_within(tensor + k, first) : UINT32_MAX;
    }
    bucket.beyond = next_within(all ? tensor + kNext : tensor, first);
  }
  for (; all && tensor + 1 < tensor_count_; ++tensor) {
    element += tensors_[tensor].count;
    starts_[tensor + 1] = start_of(tensor + 1, element);
  }
}

BlockFinder::Start BlockFinder::start_of(uint32_t tensor, uint64_t element) const noexcept {
  const TensorView& view = tensors_[tensor];
  const uint64_t blocks_before =
      (view.count - 1) / granularity_;  // of an empty one: never asked for
  return {reinterpret_cast<uintptr_t>(view.data) - view.first_block * block_bytes_,
          element - view.first_block * granularity_,
          view.first_block + blocks_before,
          view.count - blocks_before * granularity_,
          view.first_block,
          tensor};
}

uint32_t BlockFinder::next_within(uint32_t tensor, uint64_t first) const noexcept {
  const uint64_t next = next_block(tensor);
  return next - first <= mask_ ? static_cast<uint32_t>(next - first) : UINT32_MAX;
}

BlockPlace BlockFinder::find_after(uint32_t start, uint64_t block) const noexcept {
  uint32_t tensor = starts_[start].tensor;
  uint64_t element = starts_[start].element + starts_[start].first_block * granularity_;
  while (next_block(tensor) <= block) element += tensors_[tensor++].count;
  return place(start_of(tensor, element), block);
}

}  // namespace asyncmesh::kernels
