#include "core/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace asyncmesh::core {
namespace {

std::atomic<uint64_t> generation{0};

void in_child() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint64_t fork_generation() noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, &in_child);
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace asyncmesh::core
