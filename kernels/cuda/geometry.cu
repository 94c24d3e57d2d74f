#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>

#include "kernels/cuda/geometry.h"

namespace asyncmesh::kernels {
namespace {

constexpr uint32_t kGroupsPerMultiprocessor = 8;  // 2,048 threads, what one holds
constexpr int kMostDevices = 64;                  // whose counts are remembered

// Without a device 1: the launch will be refused, and says why.
uint32_t multiprocessors() noexcept {
  static std::atomic<uint32_t> known[kMostDevices];
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 1;
  std::atomic<uint32_t>* const slot = device < kMostDevices ? &known[device] : nullptr;
  const uint32_t before = slot == nullptr ? 0 : slot->load(std::memory_order_relaxed);
  if (before != 0) return before;
  int count = 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return 1;
  }
  if (slot != nullptr) slot->store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  return static_cast<uint32_t>(count);
}

}  // namespace

uint32_t groups_for(uint64_t items, uint64_t per_group) noexcept {
  const uint64_t most = uint64_t{multiprocessors()} * kGroupsPerMultiprocessor;
  return static_cast<uint32_t>(std::min(most, (items + per_group - 1) / per_group));
}

}  // namespace asyncmesh::kernels
