// Bounded ring from any number of producer threads to one consumer thread.
//
// Every cell carries a sequence number: `position` when it is free for the push at that position,
// `position + 1` when it holds a value, `position + capacity` when the consumer has emptied it
// (after D. Vyukov's bounded queue). A push is one compare-and-swap on the tail plus a store to the
// cell; producers never wait for each other. Order: pushes of one producer stay in order.
//
// A producer that is descheduled between its swap and its store hides later values from the
// consumer until it runs again; `pop` then returns false, it does not wait.
//
// Threads: `push` from any thread, `pop` and `empty` from one consumer. The cells are allocated
// once, in the constructor.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/cache_line.h"
#include "base/copy_words.h"

namespace asyncmesh {

template <typename T>
class MpscRing {
  static_assert(std::is_trivially_copyable_v<T>, "cells are copied while peers are running");

 public:
  // Holds at least `capacity` elements: rounded up to a power of two.
  explicit MpscRing(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? size_t{2} : capacity) - 1),
        cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].sequence.store(i, std::memory_order_relaxed);
  }
  MpscRing(const MpscRing&) = delete;
  MpscRing& operator=(const MpscRing&) = delete;

  size_t capacity() const noexcept { return mask_ + 1; }

  // Any thread. False: full, nothing was stored.
  bool push(const T& value) noexcept {
    size_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & mask_];
      // Pairs with the release in `pop`: the consumer is done with the cell.
      const size_t sequence = cell.sequence.load(std::memory_order_acquire);
      const auto lead = static_cast<ptrdiff_t>(sequence - position);
      if (lead < 0) return false;
      if (lead > 0) {
        position = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        copy_words(cell.value, value);
        // Pairs with the acquire in `pop` and `empty`.
        cell.sequence.store(position + 1, std::memory_order_release);
        return true;
      }
    }
  }

  // Consumer. False: nothing there, *value_out is untouched.
  bool pop(T* value_out) noexcept {
    Cell& cell = cells_[head_ & mask_];
    // Pairs with the release in `push`.
    if (cell.sequence.load(std::memory_order_acquire) != head_ + 1) return false;
    copy_words(*value_out, cell.value);
    // Pairs with the acquire in `push`.
    cell.sequence.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return true;
  }

  // Consumer. True: `pop` would fail.
  bool empty() const noexcept {
    return cells_[head_ & mask_].sequence.load(std::memory_order_acquire) != head_ + 1;
  }

 private:
  struct Cell {
    std::atomic<size_t> sequence;
    T value;
  };

  const size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kCacheLine) std::atomic<size_t> tail_{0};  // producers
  alignas(kCacheLine) size_t head_ = 0;              // consumer
};

}  // namespace asyncmesh
