// Counts heap allocations, so that a test can say "none here".
//
//      const AllocGuard guard;
//      ... the hot path ...
//      EXPECT_EQ(guard.in_thread(), 0u);
//
// Linking asyncmesh_alloc_guard replaces operator new and, but under sanitizers (which bring their
// own), malloc and its relatives for the whole program. Counting itself allocates nothing.
#pragma once

#include <cstdint>

namespace asyncmesh::test {

uint64_t allocations_in_thread() noexcept;   // ever, by the calling thread
uint64_t allocations_in_process() noexcept;  // ever, by all threads

class AllocGuard {
 public:
  AllocGuard() : thread_(allocations_in_thread()), process_(allocations_in_process()) {}

  // Since construction.
  uint64_t in_thread() const noexcept { return allocations_in_thread() - thread_; }
  uint64_t in_process() const noexcept { return allocations_in_process() - process_; }

 private:
  uint64_t thread_;
  uint64_t process_;
};

}  // namespace asyncmesh::test
