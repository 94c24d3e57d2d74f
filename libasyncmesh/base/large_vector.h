// Vectors of what may be as large as a model: on huge pages where the system gives them on request
// (transparent_hugepage: always or madvise), since blocks at random places of an array on small
// pages cost a walk of the page tables each. Aligned to the cache line, and from a page on to the
// page, as memory registration wants it. Filled, hence touched, when made. Throws std::bad_alloc.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace asyncmesh {

template <typename T>
class LargeAllocator {
 public:
  using value_type = T;

  LargeAllocator() = default;
  template <typename Other>
  explicit LargeAllocator(const LargeAllocator<Other>&) noexcept {}

  T* allocate(size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    const size_t bytes = count * sizeof(T);
    void* const memory = ::operator new(bytes, alignment(bytes));
    // Advice: where it is not taken, pages are small.
    if (bytes >= kHugePage) madvise(memory, bytes / kPage * kPage, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) noexcept {
    ::operator delete(memory, alignment(count * sizeof(T)));
  }
  bool operator==(const LargeAllocator&) const noexcept { return true; }

 private:
  static constexpr size_t kLine = 64, kPage = 4096, kHugePage = size_t{2} << 20;

  static constexpr std::align_val_t alignment(size_t bytes) noexcept {
    if (bytes >= kHugePage) return std::align_val_t{kHugePage};
    return std::align_val_t{bytes >= kPage ? kPage : kLine};
  }
};

template <typename T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace asyncmesh
