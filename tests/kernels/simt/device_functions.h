// Barriers, shuffles, votes, sums and bit counts on the executor. What is missing here is missing
// in the kernels so far.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "tests/kernels/simt/executor.h"

namespace simt {

// Where a device function was called: its last parameter, never given.
struct Place {
  const char* file;
  int line;
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

template <typename T>
T shuffle(uint32_t mask, T value, uint32_t source, const Place& place) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = meet({Operation::kShuffle, mask, bits, source, place.file, place.line});
  memcpy(&value, &bits, sizeof(T));
  return value;
}

inline uint32_t vote(uint32_t mask, bool predicate, const Place& place) {
  return static_cast<uint32_t>(
      meet({Operation::kVote, mask, predicate ? 1U : 0U, 0, place.file, place.line}));
}

inline uint64_t barrier(bool predicate, const Place& place) {
  return meet({Operation::kBarrier, 0, predicate ? 1U : 0U, 0, place.file, place.line});
}

// The first lane of the caller's segment.
inline uint32_t segment_of(int width) {
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width))) {
    misuse("shuffles with a width of " + std::to_string(width));
  }
  return current_lane() & ~(static_cast<uint32_t>(width) - 1);
}

}  // namespace simt

inline void __syncthreads(const simt::Place& place = simt::Place::here()) {
  simt::barrier(false, place);
}
inline int __syncthreads_or(int predicate, const simt::Place& place = simt::Place::here()) {
  return simt::barrier(predicate != 0, place) != 0 ? 1 : 0;
}
inline int __syncthreads_and(int predicate, const simt::Place& place = simt::Place::here()) {
  return simt::barrier(predicate == 0, place) == 0 ? 1 : 0;
}
inline int __syncthreads_count(int predicate, const simt::Place& place = simt::Place::here()) {
  return static_cast<int>(simt::barrier(predicate != 0, place));
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFU,
                       const simt::Place& place = simt::Place::here()) {
  simt::meet({simt::Operation::kSyncWarp, mask, 0, 0, place.file, place.line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const simt::Place& place = simt::Place::here()) {
  return simt::vote(mask, predicate != 0, place);
}
inline int __any_sync(unsigned mask, int predicate,
                      const simt::Place& place = simt::Place::here()) {
  return simt::vote(mask, predicate != 0, place) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      const simt::Place& place = simt::Place::here()) {
  return simt::vote(mask, predicate == 0, place) == 0 ? 1 : 0;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value,
                                  const simt::Place& place = simt::Place::here()) {
  return static_cast<unsigned>(
      simt::meet({simt::Operation::kSum, mask, value, 0, place.file, place.line}));
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              const simt::Place& place = simt::Place::here()) {
  const uint32_t first = simt::segment_of(width);
  return simt::shuffle(mask, value, first + (static_cast<uint32_t>(lane) & (width - 1)), place);
}
// Past the segment's edge a thread reads itself.
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                   const simt::Place& place = simt::Place::here()) {
  const uint64_t end = uint64_t{simt::segment_of(width)} + width, lane = simt::current_lane();
  return simt::shuffle(mask, value, static_cast<uint32_t>(lane + by < end ? lane + by : lane),
                       place);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                 const simt::Place& place = simt::Place::here()) {
  const uint32_t first = simt::segment_of(width), lane = simt::current_lane();
  return simt::shuffle(mask, value, lane - first >= by ? lane - by : lane, place);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  const simt::Place& place = simt::Place::here()) {
  const uint32_t end = simt::segment_of(width) + width, lane = simt::current_lane();
  const uint32_t source = lane ^ static_cast<uint32_t>(bits);
  return simt::shuffle(mask, value, source < end ? source : lane, place);
}

inline int __popc(unsigned value) { return std::popcount(value); }
inline int __popcll(unsigned long long value) { return std::popcount(value); }
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline int __ffs(int value) {
  return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1;
}
