// What the two ends of loopback links know about each other beside the lanes: how to wake an owner
// that sleeps, and who is gone.
//
// Wake-up without a syscall per frame (Dekker): a producer publishes, then looks at `armed_`; a
// consumer arms, then looks at what is published. All four accesses are sequentially consistent, so
// at least one of them sees the other: no wake-up is lost, and the eventfd is written only when the
// other side is about to sleep, once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/cache_line.h"

namespace asyncmesh::transport {

// One per transport; shared with its peers.
class Endpoint {
 public:
  explicit Endpoint(
      uint64_t id);  // without a file descriptor (event_fd() == -1) if the process has none left
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  uint64_t id() const { return id_; }
  int event_fd() const { return event_fd_; }

  // ---- any thread ----
  // After publishing something for this endpoint's owner.
  void notify() noexcept {
    if (armed_.load(std::memory_order_seq_cst)) wake();
  }
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }

  // ---- own owner ----
  void arm() noexcept;     // before the last look for work
  void disarm() noexcept;  // also clears the descriptor
  void close() noexcept;   // the transport is going away

 private:
  void wake() noexcept;

  const uint64_t id_;
  const int event_fd_;
  bool arming_ = false;  // own owner: armed since the last disarm
  alignas(kCacheLine) std::atomic<bool> armed_{false};
  std::atomic<bool> closed_{false};
};

// One per link and epoch; shared by its two ends.
struct Wire {
  std::array<std::atomic<bool>, 2> closed{};  // by side
  std::array<bool, 2> joined{};               // by side; guarded by the registry
};

}  // namespace asyncmesh::transport
