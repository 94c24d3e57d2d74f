// How work reaches the progress owner.
//
// Two kinds of operation travel through the context's bounded lock-free ring (base/mpsc_ring.h):
//   * "this port has submissions": each port keeps its own SPSC ring of submissions, as large as
//     the port can ever need, and stands in the context's ring at most once. So neither ring can be
//     full, whatever the number of ports, and a post is wait-free;
//   * "run this command": a control-path request (open a port, leave the mesh) whose caller waits.
//
//      port_send -> Port::commit -> PortQueue::submit -> [submissions of the port]
//                                        \-> first one: [operations of the context] -> doorbell
//      owner: pop operation -> PortQueue::drain_st -> Port::execute_st -> LaneWriter -> transport
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cache_line.h"
#include "base/mpsc_ring.h"
#include "base/spsc_ring.h"
#include "core/doorbell.h"
#include "lane/port.h"

namespace asyncmesh::core {

class PortQueue;

// A request that runs on the progress owner. It lives on its caller's stack until `finish_st`.
class Command {
 public:
  virtual ~Command() = default;
  virtual void run_st() = 0;
  virtual void finish_st() = 0;  // the last thing the owner does with it
};

struct Operation {
  PortQueue* port = nullptr;  // one of the two is set
  Command* command = nullptr;
};

inline constexpr uint32_t kMaxPorts = 2048;                 // per context
inline constexpr uint32_t kOperationSlots = 2 * kMaxPorts;  // the rest is for commands

// The way in: the ring of operations and the doorbell of its owner.
class OperationRing {
 public:
  OperationRing() : ring_(kOperationSlots) {}
  OperationRing(const OperationRing&) = delete;
  OperationRing& operator=(const OperationRing&) = delete;

  Status open() { return bell_.open(); }
  // Any thread. Waits (yielding) only if thousands of commands stand in the ring.
  void post(const Operation& operation) noexcept;
  bool pop_st(Operation* operation_out) noexcept { return ring_.pop(operation_out); }
  bool empty_st() const noexcept { return ring_.empty(); }
  Doorbell& bell() noexcept { return bell_; }

 private:
  MpscRing<Operation> ring_;
  Doorbell bell_;
};

// The submissions of one port. Threads: `submit` and `poke` belong to the port's application
// thread, `drain_st` to the progress owner.
class PortQueue final : public Submitter {
 public:
  explicit PortQueue(OperationRing& operations) : operations_(operations) {}

  // Before the first submission; `capacity` = Port::max_submissions().
  void reserve(uint32_t capacity) { ring_ = std::make_unique<SpscRing<Submission>>(capacity); }
  void submit(const Submission& submission) noexcept override;
  // Makes the owner look at this port's credit soon: a frame was taken.
  void poke() noexcept;
  uint32_t drain_st();  // executes everything; returns the number of submissions

 private:
  OperationRing& operations_;
  std::unique_ptr<SpscRing<Submission>> ring_;
  alignas(kCacheLine) std::atomic<bool> queued_{false};  // stands in the context's ring
};

}  // namespace asyncmesh::core
