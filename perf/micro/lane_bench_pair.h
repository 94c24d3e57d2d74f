// Two processes for a benchmark: the caller and a fork of it, with a socket between them. Forked
// before UCX is touched, since UCX does not survive a fork.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "transport/transport.h"

namespace asyncmesh::bench {

using transport::Bytes;

class ProcessPair {
 public:
  ProcessPair();
  ~ProcessPair();  // the leader waits for the follower
  ProcessPair(const ProcessPair&) = delete;
  ProcessPair& operator=(const ProcessPair&) = delete;

  bool leader() const { return pid_ != 0; }
  // Both sides send, then both receive. Ends the process if the other side is gone.
  Bytes exchange(std::span<const std::byte> mine) const;

 private:
  int fd_ = -1;
  pid_t pid_ = 0;
};

// A failure that ends the benchmark: says why and exits.
[[noreturn]] void give_up(const char* what, const char* why);

}  // namespace asyncmesh::bench
