// top_change on the device: what its kernels share.
//
//   sample    one random element of each of kSample equal strata; from it a bracket [low, high]
//             that holds the k-th score but for bad luck
//   count     the pass over the data: a few bits for each element say whether its score is above
//             `high`, at an edge of the bracket, or between; those between are survivors, listed
//             with their score. Tiles of kTile elements count each kind
//   judge     where the k-th score is; `exact` if it is not in the bracket, or if more survive than
//             there is room for
//   histogram, pick   the k-th score, in up to three rounds over the survivors (exact: over the
//             data)
//   settle    the survivors correct their bits and the counts of their tiles
//             (exact: another count, with the k-th score as the bracket)
//   sum, scan what lies before each tile
//   emit      from the bits: indices in order
//
// Nothing of this is decided on the host: kernels that are not needed return at once. A launch that
// begins within a tile, or a row, adds to what the launch before left there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/geometry.h"
#include "kernels/cuda/table_launch.h"
#include "kernels/encoding.h"
#include "kernels/kernels.h"
#include "kernels/random.h"

namespace asyncmesh::kernels::selection {

inline constexpr uint32_t kTile = kGroupValues;
inline constexpr uint32_t kSample = 16384;
inline constexpr uint64_t kOpenBelow = 65536;  // elements for which all count as between
inline constexpr uint32_t kBinBits = 11;
inline constexpr uint32_t kBins = 1U << kBinBits;
inline constexpr uint32_t kScoreBits = 31;
inline constexpr uint32_t kRounds = (kScoreBits + kBinBits - 1) / kBinBits;
inline constexpr uint32_t kScoreLimit = 0x7F800000U;

enum class Where : uint32_t { kHigh, kBetween, kLow, kExact };  // the k-th score

// Scores are handled as their bits, which order like the floats they are.
struct State {
  uint32_t low, high;
  Where where;
  uint32_t rank;   // of the k-th score among those that the histograms count, from 1
  uint32_t score;  // of it; while it is looked for, it is in [score, score + 2^bits)
  uint32_t bits;
  uint32_t survivors;
  unsigned long long above, at_high, at_low, between;  // of the whole table
  uint32_t histogram[kBins];
};

struct Tile {
  uint32_t above, at_high, at_low, between;
  uint32_t between_above, between_at;  // the k-th score
};

struct Survivor {
  uint32_t score, element;
};

// What is selected of a row of 64 elements is told by two words: of kHigh and kExact, `upper`
// without `edge`, and both are ties; of the others, `upper`, and `edge` without it are ties.
using Word = unsigned long long;

// Selected for certain and at the k-th score, in the upper and the lower half.
using Pair = unsigned long long;
ASYNCMESH_INLINE Pair pair(uint32_t above, uint32_t ties) {
  return static_cast<Pair>(above) << 32 | ties;
}

ASYNCMESH_INLINE Pair selected(const Tile& tile, Where where) {
  if (where == Where::kBetween) {
    return pair(tile.above + tile.at_high + tile.between_above, tile.between_at);
  }
  if (where == Where::kLow) return pair(tile.above + tile.at_high + tile.between, tile.at_low);
  return pair(tile.above, tile.at_high);
}

ASYNCMESH_INLINE uint32_t score_of(float w, float reference, float weight) {
  const uint32_t bits = bits_of((w - reference) * weight) & 0x7FFFFFFFU;
  return bits < kScoreLimit ? bits : 0;
}

// The element that stands for stratum `i` of kSample.
ASYNCMESH_INLINE uint64_t sampled_element(uint64_t elements, uint32_t i) {
  const uint64_t begin = i * elements / kSample, end = (i + 1ULL) * elements / kSample;
  return begin + (((mix64(0x746F706BULL ^ i) >> 32) * (end - begin)) >> 32);
}

// The workspace, and what of it is where.
struct Room {
  State* state;
  uint32_t* sample;
  Tile* tiles;
  Pair* before;  // each tile, within its piece of kThreads tiles
  Pair* pieces;  // before each piece
  Word* upper;   // each row: above, at high or between; of the last, settle leaves what is selected
  Word* edge;    // each row: at high or at low; settle: at the k-th score
  Survivor* survivors;
  uint32_t capacity;  // of survivors
  uint64_t elements;
};
ASYNCMESH_INLINE uint64_t tiles_in(uint64_t elements) { return (elements + kTile - 1) / kTile; }

// Returns the bytes; with a null workspace that alone makes sense.
size_t lay_out(uint64_t elements, void* workspace, Room& room);

struct Scores {
  const float* reference;
  const float* weight;  // null: 1
};

}  // namespace asyncmesh::kernels::selection
