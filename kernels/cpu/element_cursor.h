// Where an element of a table lies: a walk over the tensors in ascending order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/subset.h"

namespace asyncmesh::kernels {

class ElementCursor {
 public:
  explicit ElementCursor(const ParameterTable& table) noexcept
      : table_(&table), width_(lossless(table.storage) ? 4 : 2) {}

  // Moves on to the tensor of an element of the table, which does not lie before the current one.
  void seek(uint64_t element) noexcept {
    while (element >= end_) {
      begin_ = end_;
      end_ += table_->tensors[next_++].count;
    }
  }
  // Of the current tensor, numbers within the table.
  uint64_t begin() const noexcept { return begin_; }
  uint64_t end() const noexcept { return end_; }
  const TensorView& tensor() const noexcept { return table_->tensors[next_ - 1]; }
  std::byte* at(uint64_t element) const noexcept {
    return static_cast<std::byte*>(tensor().data) + (element - begin_) * width_;
  }

 private:
  const ParameterTable* table_;
  uint64_t width_;  // bytes of an element
  uint32_t next_ = 0;
  uint64_t begin_ = 0, end_ = 0;
};

inline uint64_t table_elements(const ParameterTable& table) noexcept {
  uint64_t elements = 0;
  for (uint32_t t = 0; t < table.size; ++t) elements += table.tensors[t].count;
  return elements;
}

}  // namespace asyncmesh::kernels
