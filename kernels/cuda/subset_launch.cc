#include "kernels/cuda/subset_launch.h"

#include <algorithm>

namespace asyncmesh::kernels {
namespace {

uint64_t blocks_of(uint64_t count, uint32_t granularity) {
  return (count + granularity - 1) / granularity;
}

bool before(const LaunchTail& a, const LaunchTail& b) { return a.index < b.index; }

}  // namespace

SubsetLaunches::SubsetLaunches(const ParameterTable& table, const Subset& subset,
                               const ParameterTable* mirror) noexcept
    : table_(table),
      others_(mirror == nullptr ? nullptr : mirror->tensors),
      subset_(subset),
      launch_(subset) {
  launch_.table.storage = table.storage;
  if (mirror != nullptr) launch_.table.other_storage = mirror->storage;
  take_range();
}

bool SubsetLaunches::next() noexcept {
  const uint64_t total = subset_blocks(subset_);
  if (total == 0) return false;
  if (take_tensors()) return true;
  if (launch_.end_index == total) return false;
  take_range();
  return take_tensors();
}

bool SubsetLaunches::is_only_one() const noexcept {
  return launch_.end_index == subset_blocks(subset_) && fits_one_launch(table_);
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
  for (uint32_t i = 0; i < table_.size; ++i) {
    const TensorView& tensor = table_.tensors[i];
    const uint64_t tail = tensor.count % subset_.granularity;
    if (tail == 0) continue;
    const uint64_t last = tensor.first_block + blocks_of(tensor.count, subset_.granularity) - 1;
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
  launch_.begin_position = launch_.end_position;
  launch_.end_position =
      launch_.packed(launch_.end_index,
                     launch_.missing_before_range + (count == 0 ? 0 : tails[count - 1].missing));
  next_tensor_ = 0;
  launch_.table.end_element = 0;
}

bool SubsetLaunches::take_tensors() noexcept {
  TableLaunch& table = launch_.table;
  kernels::take_tensors(table_.tensors, others_, table_.size, next_tensor_, table);
  if (table.size == 0) return false;
  const LaunchTensor& last = table.tensors[table.size - 1];
  launch_.begin_block = table.tensors[0].first_block;
  launch_.end_block = last.first_block + blocks_of(last.count, subset_.granularity);
  return true;
}

}  // namespace asyncmesh::kernels
