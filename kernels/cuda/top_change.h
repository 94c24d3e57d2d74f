// top_change on the device: what its kernels share.
//
//   sample    one random element of each of kSample equal strata; from it a bracket [low, high]
//   that
//             holds the k-th score but for bad luck
//   count     pass 1 over the data: each tile of kTile elements counts the scores above `high`, at
//             `high`, at `low` and between; those between are survivors, appended with their tile
//   judge     where the k-th score is; `exact` if it is not in the bracket, or if more survive than
//             there is room for
//   histogram, pick   the k-th score, in three rounds over the survivors (exact: over the data)
//   settle    the tiles of the survivors learn what they have above and at the k-th score
//             (exact: another count, with that score as the bracket)
//   sum, scan what lies before each tile
//   emit      pass 2 over the data: indices in order
//
// Nothing of this is decided on the host: kernels that are not needed return at once. A tile is of
// one launch; tiles are numbered over all launches of a table.
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
inline constexpr uint32_t kBins = 2048;
inline constexpr uint32_t kRounds = 3;  // of 11, 11 and 9 bits
inline constexpr uint32_t kScoreLimit = 0x7F800000U;

enum class Where : uint32_t { kHigh, kBetween, kLow, kExact };  // the k-th score

// Scores are handled as their bits, which order like the floats they are.
struct State {
  uint32_t low, high;
  Where where;
  uint32_t rank;   // of the k-th score among those that the histograms count, from 1
  uint32_t score;  // of it; while it is looked for, its leading bits
  uint32_t survivors;
  unsigned long long above, at_high, at_low, between;  // of the whole table
  uint32_t histogram[kBins];
};

struct Tile {
  uint32_t above, at_high, at_low, between;
  uint32_t between_above, between_at;  // the k-th score
};

struct Survivor {
  uint32_t score, tile;
};

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
  Survivor* survivors;
  uint32_t capacity;  // of survivors
};
// Returns the bytes; with a null workspace that alone makes sense.
size_t lay_out(uint64_t elements, void* workspace, Room& room);

struct Scores {
  const float* reference;
  const float* weight;  // null: 1
};

}  // namespace asyncmesh::kernels::selection
