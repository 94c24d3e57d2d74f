// Where values come from or go to, by their position in a run: what the row kernels walk over.
//
//   begin(), end()      the positions that this launch covers; some may be absent, for others to do
//   find(position)      where that value is, for a position in [begin(), end())
//   kScattered          values do not follow each other: rows are not tried as a whole
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/subset_launch.h"

namespace asyncmesh::kernels::device {

// A copy that threads search at different places at once. Valid after the next barrier.
__device__ inline const LaunchTensor* shared_tensors(const TableLaunch& table) {
  __shared__ LaunchTensor tensors[TableLaunch::kMaxTensors];
  for (uint32_t i = threadIdx.x; i < table.size; i += blockDim.x) tensors[i] = table.tensors[i];
  return tensors;
}
__device__ inline const LaunchTail* shared_tails(const SubsetLaunch& launch) {
  __shared__ LaunchTail tails[SubsetLaunch::kMaxTails];
  for (uint32_t i = threadIdx.x; i < launch.tail_count; i += blockDim.x) tails[i] = launch.tails[i];
  return tails;
}

// The packed values of a subset.
class SubsetSource {
 public:
  static constexpr bool kScattered = false;
  __device__ explicit SubsetSource(const SubsetLaunch& launch)
      : launch_(launch), tensors_(shared_tensors(launch.table)), tails_(shared_tails(launch)) {
    __syncthreads();
  }
  __device__ uint64_t begin() const { return launch_.begin_position; }
  __device__ uint64_t end() const { return launch_.end_position; }
  __device__ const TableLaunch& table() const { return launch_.table; }
  __device__ LaunchPlace find(uint64_t position) const {
    return launch_.find(tensors_, tails_, position);
  }

 private:
  const SubsetLaunch& launch_;
  const LaunchTensor* tensors_;
  const LaunchTail* tails_;
};

// All elements of a table in their order.
class TableSource {
 public:
  static constexpr bool kScattered = false;
  __device__ explicit TableSource(const TableLaunch& table)
      : table_(table), tensors_(shared_tensors(table)) {
    __syncthreads();
  }
  __device__ uint64_t begin() const { return table_.begin_element; }
  __device__ uint64_t end() const { return table_.end_element; }
  __device__ const TableLaunch& table() const { return table_; }
  __device__ LaunchPlace find(uint64_t element) const {
    const uint32_t found =
        last_not_above(table_.size, element, [&](uint32_t i) { return tensors_[i].first_element; });
    LaunchPlace place = {};
    place.data = tensors_[found].data;
    place.other = tensors_[found].other;
    place.offset = element - tensors_[found].first_element;
    place.element = element;
    place.run = tensors_[found].count - place.offset;
    return place;
  }

 private:
  const TableLaunch& table_;
  const LaunchTensor* tensors_;
};

// The elements of explicit indices.
class IndexSource {
 public:
  static constexpr bool kScattered = true;
  __device__ IndexSource(const TableLaunch& table, const uint32_t* indices, uint64_t count)
      : table_(table), indices_(indices), count_(count) {}
  __device__ uint64_t begin() const { return 0; }
  __device__ uint64_t end() const { return count_; }
  __device__ const TableLaunch& table() const { return table_.table(); }
  __device__ uint64_t element(uint64_t position) const { return indices_[position]; }
  __device__ LaunchPlace find(uint64_t position) const {
    const uint64_t element = indices_[position];
    LaunchPlace place = {};
    if (element >= table_.begin() && element < table_.end()) place = table_.find(element);
    place.run = 1;
    return place;
  }

 private:
  TableSource table_;
  const uint32_t* indices_;
  uint64_t count_;
};

}  // namespace asyncmesh::kernels::device
