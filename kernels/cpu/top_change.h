// The steps of top_change on the CPU, open to its tests.
//
// A bracket [low, high] around the k-th largest score is guessed from a random sample; one pass
// over the data sorts every element into
//
//   above high | at high | inside (low, high) | at low | below
//
// as bits, and lists the few inside with their scores. The k-th score is then found among those
// inside by histograms, the bits of the losers are cleared, and the bits that are left are written
// out as indices. So the number of winners costs no memory, and ties, however many, cost two bits
// each. If the bracket missed, histograms over the data give one that is exact.
//
// Scores are handled as their bits: int32, which orders like the floats they are (none is negative,
// none is NaN). The elements are cut into ranges of whole tiles, one for each thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {

inline constexpr int32_t kScoreLimit = 0x7F800000;  // above all scores
inline constexpr uint64_t kScanTile = 4096;         // elements
inline constexpr uint32_t kBuckets = 2048;          // of a histogram
inline constexpr uint32_t kMaxRanges = 64;

// low <= k-th score <= high. -1 and kScoreLimit: open.
struct Bracket {
  int32_t low = -1;
  int32_t high = kScoreLimit;
};

// Elements inside the bracket, ascending.
struct Survivors {
  static constexpr uint32_t kCapacity = 1022;
  uint32_t count;
  uint32_t unused;
  Survivors* next;
  int32_t scores[kCapacity];
  uint32_t indices[kCapacity];
};

class SurvivorPool {
 public:
  void reset(Survivors* chunks, uint32_t size) noexcept {
    chunks_ = chunks;
    size_ = size;
    taken_.store(0, std::memory_order_relaxed);
  }
  // Null when there is none left.
  Survivors* take() noexcept {
    const uint32_t chunk = taken_.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= size_) return nullptr;
    chunks_[chunk].count = 0;
    chunks_[chunk].next = nullptr;
    return chunks_ + chunk;
  }
  bool exhausted() const noexcept { return taken_.load(std::memory_order_relaxed) > size_; }

 private:
  Survivors* chunks_ = nullptr;
  uint32_t size_ = 0;
  std::atomic<uint32_t> taken_{0};
};

// One bit per element each.
struct ScoreBits {
  uint64_t* above;     // score > low
  uint64_t* ties;      // score == low or high; a tile without any is not written
  uint8_t* tied_tile;  // whether it was
};

// What one thread works on, and what it found.
struct alignas(64) SelectionRange {
  uint64_t begin = 0, end = 0;  // elements; whole tiles but for the last
  uint64_t above_low = 0, inside = 0, at_high = 0, at_low = 0;
  Survivors* survivors = nullptr;
  uint32_t* histogram = nullptr;  // kBuckets
  uint64_t inside_above = 0;      // of those inside: above the k-th score
  uint64_t ties = 0;              // at the k-th score: found, then how many to take
  uint64_t first_out = 0;         // where its indices start
  uint64_t selected = 0;
};

// A histogram of the scores first ... first + span - 1, in buckets of 2^shift scores.
struct Buckets {
  int32_t first;
  uint32_t span;
  uint32_t shift;

  Buckets(int32_t from, uint32_t count) noexcept;
  Buckets within(uint32_t bucket) const noexcept;
  void add(int32_t score, uint32_t* histogram) const noexcept {
    const uint32_t distance = static_cast<uint32_t>(score) - static_cast<uint32_t>(first);
    if (distance < span) ++histogram[distance >> shift];
  }
};

struct Scan {
  const Change* change;
  Bracket bracket;
  ScoreBits bits;
  SurvivorPool* pool;
};

struct Emission {
  ScoreBits bits;
  Bracket bracket;
  int32_t threshold;
  uint32_t* indices;
};

// Vectorised (top_change_scan.cc). Each works on one range.
void scan_range(const Scan& scan, SelectionRange& range);
// Adds the scores of the range to its histogram.
void count_range(const Change& change, const Buckets& buckets, SelectionRange& range);
// Clears the bits of those inside below the threshold, and writes the indices of the others.
void emit_range(const Emission& emission, SelectionRange& range);
// Scores of consecutive elements: the bits of |w - reference| * weight.
void score_run(const Change& change, uint64_t first, uint64_t count, int32_t* out);

}  // namespace asyncmesh::kernels
