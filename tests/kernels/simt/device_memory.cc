#include "tests/kernels/simt/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>

namespace simt {
namespace {

constexpr std::align_val_t kAlignment{256};

struct Pages {
  bool wanted = false;
  std::map<void*, size_t> mapped;  // bytes
};

Pages& pages() {
  static Pages instance;
  return instance;
}

[[noreturn]] void die(const char* what) {
  perror(what);
  abort();
}

}  // namespace

void* allocate(size_t bytes) {
  if (!pages().wanted) return operator new(bytes, kAlignment);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t size = (bytes + page) / page * page;  // at least one
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("simt: device memory");
  pages().mapped[memory] = size;
  return memory;
}

void release(void* memory) {
  const auto found = pages().mapped.find(memory);
  if (found == pages().mapped.end()) return operator delete(memory, kAlignment);
  munmap(memory, found->second);
  pages().mapped.erase(found);
}

Sealable::Sealable() { pages().wanted = true; }
Sealable::~Sealable() { pages().wanted = false; }

void Sealable::seal(bool sealed) {
  for (const auto& [memory, size] : pages().mapped) {
    if (mprotect(memory, size, sealed ? PROT_NONE : PROT_READ | PROT_WRITE) != 0) {
      die("simt: seal");
    }
  }
}

}  // namespace simt
