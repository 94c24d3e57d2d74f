// A small owner of one epoll instance: level-triggered, one token per descriptor.
//
// Threads: one. In a forked child the instance is closed and every call does nothing.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "mesh/fork_safe_fd.h"

namespace asyncmesh::mesh {

class Poller {
 public:
  static Result<std::unique_ptr<Poller>> create();
  // Watched objects point to it.
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  int fd() const { return epoll_.get(); }
  bool watch(int fd, uint64_t token, bool read, bool write);
  void change(int fd, uint64_t token, bool read, bool write);
  void forget(int fd);

  // One system call; waits at most `timeout` (ns, 0: not at all, rounded up to ms). Room for every
  // watched descriptor, so that nothing that is pending is left out.
  std::span<const epoll_event> wait(Nanoseconds timeout);

 private:
  Poller() = default;

  ForkSafeFd epoll_;
  std::vector<epoll_event> events_;
  size_t watched_ = 0;
};

}  // namespace asyncmesh::mesh
