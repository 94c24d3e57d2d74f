// What the other members of averaging groups said about theirs, until somebody here asks.
//
// Hellos of one member and group pair up with our creations in order: each is consumed once. A
// member that gave up waiting withdraws its hello. If that was consumed here already, our averager
// stands and waits for that member, whose next hello belongs to it: it is not kept.
// Threads: any.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "core/control_message.h"

namespace asyncmesh::core {

class HelloBox {
 public:
  void put(Rank from, AveragerHello hello) {
    const std::scoped_lock lock(mutex_);
    Entry& entry = entries_[{from, hello.group}];
    if (hello.withdrawn) {
      if (entry.waiting.empty()) {
        ++entry.belated;
      } else {
        entry.waiting.pop_back();
      }
    } else if (entry.belated > 0) {
      --entry.belated;
    } else if (entry.waiting.size() < kMaxWaiting) {
      entry.waiting.push_back(std::move(hello));
    }
  }

  bool take(Rank from, uint64_t group, AveragerHello* hello_out) {
    const std::scoped_lock lock(mutex_);
    const auto entry = entries_.find({from, group});
    if (entry == entries_.end() || entry->second.waiting.empty()) return false;
    *hello_out = std::move(entry->second.waiting.front());
    entry->second.waiting.pop_front();
    return true;
  }

 private:
  static constexpr size_t kMaxWaiting = 64;  // creations that a member may be ahead
  struct Entry {
    std::deque<AveragerHello> waiting;
    uint32_t belated = 0;
  };
  std::mutex mutex_;
  std::map<std::pair<Rank, uint64_t>, Entry> entries_;
};

}  // namespace asyncmesh::core
