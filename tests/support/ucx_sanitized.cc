// What the sanitizers must be told about UCX, for test programs that use it.
//
// ThreadSanitizer does not know shmat and shmdt: memory that one thread gave back, and another one
// got at the same address, looks like a race. One variable orders the two: the pieces may overlap
// in part.
//
// AddressSanitizer: three leaks of UCX 1.13 when a link is reset at an awkward moment. Whole
// stacks, so that nothing else of UCX's or ours hides behind them.
//   ucp_ep_create_base    56 bytes for an endpoint whose worker is destroyed while a request of it
//                         is not complete
//   ucp_wireup_ep_create  760 bytes for an endpoint that fails while it is being wired up
//   uct_mm_ep_t_new       the tables of an endpoint whose creation fails since the peer's queue is
//                         gone
#if defined(__SANITIZE_THREAD__)
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>
#include <sys/shm.h>

namespace {
char detached;
}

extern "C" {

__attribute__((visibility("default"))) void* shmat(int id, const void* address, int flags) {
  using Attach = void* (*)(int, const void*, int);
  static const auto attach = reinterpret_cast<Attach>(dlsym(RTLD_NEXT, "shmat"));
  void* const memory = attach(id, address, flags);
  __tsan_acquire(&detached);
  return memory;
}

__attribute__((visibility("default"))) int shmdt(const void* memory) {
  using Detach = int (*)(const void*);
  static const auto detach = reinterpret_cast<Detach>(dlsym(RTLD_NEXT, "shmdt"));
  __tsan_release(&detached);
  return detach(memory);
}
}
#endif

extern "C" {

__attribute__((visibility("default"))) const char* __asan_default_options() {
  return "fast_unwind_on_malloc=0";
}

__attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:ucp_ep_create_base\nleak:ucp_wireup_ep_create\nleak:uct_mm_ep_t_new\n";
}
}
