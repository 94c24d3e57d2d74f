// Where the entries of cuda() run in this program: on the SIMT executor (backend_simt.cc) or on a
// GPU (backend_gpu.cc). Each has a main() that says which.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tests/kernels/random_table.h"

namespace asyncmesh::kernels::backend {

// Memory that host and kernels may touch, aligned to 256.
void* allocate(size_t bytes);
void release(void* memory);
// Waits for all launches; empty, or what went wrong since the last call.
std::string finish();

template <typename T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <typename U>
  Allocator(const Allocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(backend::allocate(count * sizeof(T))); }
  void deallocate(T* memory, size_t) { release(memory); }
  bool operator==(const Allocator&) const { return true; }
};

// What kernels read and write. As with any memory of a device: not touched before finish().
template <typename T>
using Array = std::vector<T, Allocator<T>>;

template <typename Vector>
Array<typename Vector::value_type> array_of(const Vector& values) {
  return {values.begin(), values.end()};
}

// A table's tensors, copied.
class Table {
 public:
  explicit Table(const RandomTable& table) : storage_(array_of(table.storage())) {
    for (uint32_t t = 0; t < table.size(); ++t) {
      TensorView view = table.views()[t];
      view.data = storage_.data() + (view.floats() - table.storage().data());
      views_.push_back(view);
    }
  }
  ParameterTable view() const { return {views_.data(), static_cast<uint32_t>(views_.size())}; }
  const Array<float>& storage() const { return storage_; }

 private:
  Array<float> storage_;
  std::vector<TensorView> views_;
};

// Bitwise: NaNs and signs of zero count.
template <typename One, typename Other>
testing::AssertionResult same_bits(const One& one, const Other& other) {
  if (one.size() != other.size()) {
    return testing::AssertionFailure() << one.size() << " values, not " << other.size();
  }
  for (size_t i = 0; i < one.size(); ++i) {
    if (memcmp(&one[i], &other[i], sizeof(one[i])) == 0) continue;
    return testing::AssertionFailure() << "differ first at " << i << " of " << one.size();
  }
  return testing::AssertionSuccess();
}

}  // namespace asyncmesh::kernels::backend
