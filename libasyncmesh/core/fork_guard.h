// Tells a forked child from the process that made an object, without a system call per check.
//
// The only state of this file is a counter of the process, raised in every forked child by
// pthread_atfork. An object remembers the count at its creation; a different count means that it
// was inherited: its threads do not exist here and its sockets belong to the parent.
#pragma once

#include <cstdint>

namespace asyncmesh::core {

// The number of forks between the first process that asked and this one. Any thread.
uint64_t fork_generation() noexcept;

class ForkGuard {
 public:
  ForkGuard() noexcept : generation_(fork_generation()) {}
  bool inherited() const noexcept { return generation_ != fork_generation(); }

 private:
  uint64_t generation_;
};

}  // namespace asyncmesh::core
