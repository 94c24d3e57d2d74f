// Peer events on their way to the application: each is delivered once, in order.
//
// Rare by nature, so a mutex guards the queue; the count beside it lets a caller that polls find
// out without the mutex that there is nothing. Threads: push from the progress owner, pop from one
// caller at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "base/status.h"

namespace asyncmesh::core {

enum class EventKind : uint32_t {
  kPeerSuspect = 1,
  kPeerAlive = 2,
  kPeerLost = 3,
  kPeerLeft = 4,
  kMeshLost = 5,
  kPortReady = 6,
};

struct Event {
  EventKind kind = EventKind::kPortReady;
  uint32_t rank = 0;
  Code status = Code::kOk;
  uint64_t port_key = 0;
  std::string text;
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void put(const Event& event) = 0;
};

class EventQueue {
 public:
  void push(Event event) {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
    count_.store(events_.size(), std::memory_order_release);  // pairs with the acquire in `pop`
  }
  bool pop(Event* event_out) {
    if (count_.load(std::memory_order_acquire) == 0) return false;
    const std::scoped_lock lock(mutex_);
    if (events_.empty()) return false;
    *event_out = std::move(events_.front());
    events_.pop_front();
    count_.store(events_.size(), std::memory_order_release);
    return true;
  }

 private:
  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::deque<Event> events_;
};

}  // namespace asyncmesh::core
