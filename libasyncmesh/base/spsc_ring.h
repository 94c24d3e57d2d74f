// Bounded ring between exactly one producer thread and one consumer thread.
//
// Wait-free on both sides. Each side keeps its own index and a copy of the other side's on its own
// cache line, and reads the peer's line only when the copy says full or empty. The slots are
// allocated once, in the constructor.
//
// Threads: `back` and `push` belong to the producer, `pop` to the consumer, `empty` to the
// consumer; handing either role to another thread needs a happens-before edge made by the caller.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "base/cache_line.h"
#include "base/copy_words.h"

namespace asyncmesh {

template <typename T>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<T>, "slots are copied while the peer is running");

 public:
  // Holds at least `capacity` elements: rounded up to a power of two.
  explicit SpscRing(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? size_t{2} : capacity) - 1),
        slots_(std::make_unique<T[]>(mask_ + 1)) {}
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  size_t capacity() const noexcept { return mask_ + 1; }

  // Producer. Where the next element is to be written, before `push`; null: full.
  T* back() noexcept {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ > mask_) {
      // Pairs with the release in `pop`: the consumer is done with the slot.
      head_seen_ = head_.load(std::memory_order_acquire);
      if (tail - head_seen_ > mask_) return nullptr;
    }
    return &slots_[tail & mask_];
  }

  // Producer. What was written to `back` becomes an element.
  void push() noexcept {
    // Pairs with the acquire in `pop` and `empty`.
    tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Producer. False: full, nothing was stored.
  bool push(const T& value) noexcept {
    T* const place = back();
    if (place == nullptr) return false;
    copy_words(*place, value);
    push();
    return true;
  }

  // Consumer. False: empty, *value_out is untouched.
  bool pop(T* value_out) noexcept {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      // Pairs with the release in `push`.
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head == tail_seen_) return false;
    }
    copy_words(*value_out, slots_[head & mask_]);
    // Pairs with the acquire in `push`.
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // Consumer. True: `pop` would fail.
  bool empty() const noexcept {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }

 private:
  const size_t mask_;
  const std::unique_ptr<T[]> slots_;
  alignas(kCacheLine) std::atomic<size_t> tail_{0};  // producer writes
  size_t head_seen_ = 0;                             // producer's copy of head_
  alignas(kCacheLine) std::atomic<size_t> head_{0};  // consumer writes
  size_t tail_seen_ = 0;                             // consumer's copy of tail_
};

}  // namespace asyncmesh
