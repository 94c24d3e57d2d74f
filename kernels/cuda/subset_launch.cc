#include "kernels/cuda/subset_launch.h"

#include <algorithm>

namespace asyncmesh::kernels {
namespace {

uint64_t blocks_of(const TensorView& tensor, uint32_t granularity) {
  return (tensor.count + granularity - 1) / granularity;
}

bool before(const LaunchTail& a, const LaunchTail& b) { return a.index < b.index; }

}  // namespace

SubsetLaunches::SubsetLaunches(const ParameterTable& table, const Subset& subset,
                               const ParameterTable* mirror) noexcept
    : tensors_(table.tensors),
      tensor_count_(table.size),
      mirror_(mirror == nullptr ? nullptr : mirror->tensors),
      subset_(subset),
      launch_(subset) {
  take_range();
}

bool SubsetLaunches::next() noexcept {
  const uint64_t total = subset_blocks(subset_);
  if (total == 0) return false;
  take_tensors();
  if (launch_.tensor_count != 0) return true;
  if (launch_.end_index == total) return false;
  take_range();
  take_tensors();
  return launch_.tensor_count != 0;
}

// The next positions: up to the kMaxTails-th short block from here, which a heap of the smallest
// ones finds in one pass over the tensors.
void SubsetLaunches::take_range() noexcept {
  const uint64_t total = subset_blocks(subset_);
  if (launch_.tail_count != 0) {
    launch_.missing_before_range += launch_.tails[launch_.tail_count - 1].missing;
  }
  const uint64_t begin = launch_.end_index;
  LaunchTail* const tails = launch_.tails;
  uint32_t count = 0;
  bool all = true;
  for (uint32_t i = 0; i < tensor_count_; ++i) {
    const uint64_t tail = tensors_[i].count % subset_.granularity;
    if (tail == 0) continue;
    const uint64_t last = tensors_[i].first_block + blocks_of(tensors_[i], subset_.granularity) - 1;
    const uint64_t position = launch_.permutation.forward(last);
    const LaunchTail found = {position / subset_.parts, subset_.granularity - tail};
    if (!in_subset(subset_, position) || found.index < begin) continue;
    if (count == SubsetLaunch::kMaxTails) {
      all = false;
      if (found.index > tails[0].index) continue;
      std::pop_heap(tails, tails + count--, before);
    }
    tails[count++] = found;
    std::push_heap(tails, tails + count, before);
  }
  std::sort_heap(tails, tails + count, before);
  for (uint32_t i = 1; i < count; ++i) tails[i].missing += tails[i - 1].missing;
  launch_.tail_count = count;
  launch_.begin_index = begin;
  launch_.end_index = all ? total : tails[count - 1].index + 1;
  next_tensor_ = 0;
  next_element_ = 0;
}

void SubsetLaunches::take_tensors() noexcept {
  uint32_t& count = launch_.tensor_count;
  count = 0;
  for (; next_tensor_ < tensor_count_ && count < SubsetLaunch::kMaxTensors; ++next_tensor_) {
    const TensorView& tensor = tensors_[next_tensor_];
    if (tensor.count == 0) continue;
    void* const mirror = mirror_ == nullptr ? nullptr : mirror_[next_tensor_].data;
    launch_.tensors[count++] = {tensor.data, mirror, tensor.count, tensor.first_block,
                                next_element_};
    next_element_ += tensor.count;
  }
  if (count == 0) return;
  const LaunchTensor& last = launch_.tensors[count - 1];
  launch_.begin_block = launch_.tensors[0].first_block;
  launch_.end_block =
      last.first_block + (last.count + subset_.granularity - 1) / subset_.granularity;
}

}  // namespace asyncmesh::kernels
