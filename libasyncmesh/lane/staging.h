// The buffers in which a port's frames are packed and from which they are sent and, after a link
// reset, replayed.
//
// One aligned allocation, made at creation. The application claims (SPSC ring owner ->
// application), the owner counts how many lanes still need a buffer and returns it at zero.
//
//   free --claim--> application --submission, retain_st(n)--> n lanes --drop_st x n--> free
//                     |  ^                     retain_st(0) ----------------------------^
//              unclaim v  | claim (before the free ring)
//                    unclaimed
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/large_vector.h"
#include "base/spsc_ring.h"
#include "transport/transport.h"

namespace asyncmesh {

class StagingPool {
 public:
  StagingPool(uint32_t buffers, uint32_t slot_bytes);  // a frame in each; as LaneGeometry
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  uint32_t buffers() const noexcept { return buffers_; }
  std::byte* data(uint32_t buffer) noexcept {
    return memory_.data() + buffer * stride_ + transport::kFrameLead;
  }
  std::span<std::byte> memory() noexcept { return memory_; }

  // ---- application thread ----
  bool claim(uint32_t* buffer_out) noexcept;  // false: none free
  void unclaim(uint32_t buffer) noexcept;     // a claim that was not submitted
  bool available() const noexcept;            // claim would succeed

  // ---- progress owner ----
  void retain_st(uint32_t buffer, uint32_t lanes) noexcept;  // for 0 lanes: free at once
  void drop_st(uint32_t buffer) noexcept;                    // one lane less; free at zero

 private:
  uint32_t buffers_;
  size_t stride_;
  LargeVector<std::byte> memory_;
  std::vector<uint32_t> references_;  // by buffer
  SpscRing<uint32_t> free_;
  std::vector<uint32_t> unclaimed_;  // application thread: reused first, still warm
};

}  // namespace asyncmesh
