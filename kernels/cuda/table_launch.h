// How a parameter table gets to the device: by value, in the parameter block of a launch.
//
// Nothing is allocated, copied ahead or kept: each launch carries up to kMaxTensors tensors; a
// larger table takes several. Host and device code without CUDA types, so that the tests run it on
// the CPU.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels {

struct LaunchTensor {
  void* data;
  void* other;  // the same tensor of a second table (mirror, comparison); null: none
  uint64_t count;
  uint64_t first_block;
  uint64_t first_element;  // within the table
};

// The last of the `size` > 0 sorted keys that is not above `value`; key(0) is not.
template <typename Key>
ASYNCMESH_INLINE uint32_t last_not_above(uint32_t size, uint64_t value, const Key& key) {
  uint32_t low = 0;
  for (uint32_t high = size; high - low > 1;) {
    const uint32_t middle = low + (high - low) / 2;
    if (key(middle) <= value) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

struct TableLaunch {
  static constexpr uint32_t kMaxTensors = 512;

  uint32_t size = 0;
  Encoding storage = Encoding::kFloat32;
  Encoding other_storage = Encoding::kFloat32;
  uint64_t begin_element = 0, end_element = 0;  // of the table, that `tensors` hold
  LaunchTensor tensors[kMaxTensors];            // without empty ones
};

// Enumerates the launches that cover a table:
//   TableLaunches launches(...); while (launches.next()) use(launches.launch());
class TableLaunches {
 public:
  // The tables must outlive it. `other` may be null, else it has the same shapes.
  TableLaunches(const ParameterTable& table, const ParameterTable* other) noexcept;
  bool next() noexcept;
  const TableLaunch& launch() const noexcept { return launch_; }

 private:
  const TensorView* tensors_;
  const TensorView* others_;
  uint32_t size_;
  uint32_t next_ = 0;
  TableLaunch launch_;
};

// The tensors from number `next` on that fit into `launch`; advances both.
void take_tensors(const TensorView* tensors, const TensorView* others, uint32_t size,
                  uint32_t& next, TableLaunch& launch) noexcept;
// Whether one launch holds all tensors.
bool fits_one_launch(const ParameterTable& table) noexcept;

}  // namespace asyncmesh::kernels
