// The context's log: lines on a file descriptor that the application gave.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/log.h"

namespace asyncmesh::core {

class LogTarget {
 public:
  LogTarget(int fd, LogLevel level) : fd_(fd), level_(level) {}

  Logger logger() { return fd_ < 0 ? Logger() : Logger(&LogTarget::write_line, this, level_); }
  void set_rank(uint32_t rank) { rank_.store(rank, std::memory_order_relaxed); }

 private:
  // "asyncmesh[3] warning: ...\n" in one write, so that lines of several ranks do not mix.
  static void write_line(void* self, LogLevel level, std::string_view text);

  const int fd_;
  const LogLevel level_;
  std::atomic<uint32_t> rank_{UINT32_MAX};  // unknown before the join
};

}  // namespace asyncmesh::core
