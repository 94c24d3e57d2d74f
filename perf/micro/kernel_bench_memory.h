// Memory as trainers' allocators give it (large blocks, transparent huge pages where the system
// grants them on request), or on small pages with ASYNCMESH_BENCH_SMALL_PAGES=1.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>

namespace asyncmesh::kernels::bench {

inline bool small_pages() {
  const char* wanted = std::getenv("ASYNCMESH_BENCH_SMALL_PAGES");
  return wanted != nullptr && *wanted == '1';
}

template <typename T>
class Memory {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Memory(size_t count, T value) : count_(count) {
    constexpr size_t kHuge = size_t{2} << 20;
    bytes_ = (count * sizeof(T) + kHuge - 1) / kHuge * kHuge + kHuge;
    mapped_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    madvise(mapped_, bytes_, small_pages() ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    auto address = reinterpret_cast<uintptr_t>(mapped_);
    address = (address + kHuge - 1) / kHuge * kHuge;
    data_ = reinterpret_cast<T*>(address);
    std::fill_n(data_, count, value);
  }
  ~Memory() { munmap(mapped_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  T* data() const { return data_; }
  size_t size() const { return count_; }
  T& operator[](size_t i) const { return data_[i]; }
  std::span<T> span() const { return {data_, count_}; }

 private:
  size_t count_;
  size_t bytes_;
  void* mapped_;
  T* data_;
};

}  // namespace asyncmesh::kernels::bench
