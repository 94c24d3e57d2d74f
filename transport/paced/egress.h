// What a paced transport keeps of everything that leaves it: the token bucket and the FIFO behind
// it. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "transport/transport.h"

namespace asyncmesh::transport {

class PacedInbound;
class PacedOutbound;

// A token bucket on absolute time: it remembers when the link is free again, so that neither the
// moment of a call nor rounding (the remainder is carried) changes the rate.
class TokenBucket {
 public:
  TokenBucket(uint64_t bytes_per_second, uint64_t burst_bytes);  // 0 bytes per second: unlimited

  // Takes `bytes` and returns the moment at which the last of them has left. Never goes back.
  Nanoseconds take(Nanoseconds now, uint32_t bytes) noexcept;

 private:
  uint64_t rate_;           // bytes per second
  Nanoseconds burst_ns_;    // how far the link may have been free in the past
  Nanoseconds free_at_;     // when the link is free again
  uint64_t remainder_ = 0;  // of free_at_, in ns / rate_
};

// A frame or a credit on its way to the inner transport; exactly one of outbound and inbound is
// set.
struct Departure {
  Nanoseconds due = 0;
  PacedOutbound* outbound = nullptr;
  PacedInbound* inbound = nullptr;
  Sequence sequence = 0;
  Frame frame;
  Credit credit;
};

// FIFO in a ring that is as large as all lanes together can need.
class DepartureQueue {
 public:
  bool empty() const noexcept { return count_ == 0; }
  const Departure& front() const noexcept { return ring_[head_]; }
  void push(const Departure& departure);
  Departure pop() noexcept;

  void reserve(size_t more);               // set-up: room for `more` entries on top
  void unreserve(size_t fewer) noexcept;   // the capacity stays
  void remove(const PacedOutbound* lane);  // teardown: forget what a lane still has here
  void remove(const PacedInbound* lane);

 private:
  template <typename Predicate>
  void remove_if(Predicate predicate);
  void grow(size_t capacity);

  std::vector<Departure> ring_;  // power of two
  size_t head_ = 0;
  size_t count_ = 0;
  size_t reserved_ = 0;
};

}  // namespace asyncmesh::transport
