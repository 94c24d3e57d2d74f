#include "kernels/cuda/table_launch.h"

namespace asyncmesh::kernels {

TableLaunches::TableLaunches(const ParameterTable& table, const ParameterTable* other) noexcept
    : tensors_(table.tensors),
      others_(other == nullptr ? nullptr : other->tensors),
      size_(table.size) {
  launch_.storage = table.storage;
  if (other != nullptr) launch_.other_storage = other->storage;
}

bool TableLaunches::next() noexcept {
  take_tensors(tensors_, others_, size_, next_, launch_);
  return launch_.size != 0;
}

void take_tensors(const TensorView* tensors, const TensorView* others, uint32_t size,
                  uint32_t& next, TableLaunch& launch) noexcept {
  launch.begin_element = launch.end_element;
  launch.size = 0;
  for (; next < size && launch.size < TableLaunch::kMaxTensors; ++next) {
    const TensorView& tensor = tensors[next];
    if (tensor.count == 0) continue;
    void* const other = others == nullptr ? nullptr : others[next].data;
    launch.tensors[launch.size++] = {tensor.data, other, tensor.count, tensor.first_block,
                                     launch.end_element};
    launch.end_element += tensor.count;
  }
}

bool fits_one_launch(const ParameterTable& table) noexcept {
  uint32_t tensors = 0;
  for (uint32_t i = 0; i < table.size; ++i) tensors += table.tensors[i].count != 0 ? 1 : 0;
  return tensors <= TableLaunch::kMaxTensors;
}

}  // namespace asyncmesh::kernels
