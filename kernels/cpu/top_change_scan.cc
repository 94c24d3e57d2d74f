// The passes of top_change over the data, a 64-bit word of elements at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/top_change_scan.cc"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target.h
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/codec-inl.h"
#include "kernels/cpu/element_cursor.h"
#include "kernels/cpu/float_environment.h"
#include "kernels/cpu/set_bits.h"
#include "kernels/cpu/top_change.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr uint32_t kWord = 64;  // elements
constexpr int32_t kNoElement = -2;

using FloatTag = hn::CappedTag<float, 16>;
using ScoreTag = hn::RebindToSigned<FloatTag>;
using ScoreVector = hn::VFromD<ScoreTag>;

// Where consecutive elements of one tensor lie.
template <class Format, bool kWeighted>
struct Direct {
  const std::byte* w;
  const float* reference;
  const float* weight;

  Direct(const Change& change, const ElementCursor& cursor, uint64_t element)
      : w(cursor.at(element)),
        reference(change.reference + element),
        weight(kWeighted ? change.weight + element : nullptr) {}

  HWY_INLINE ScoreVector scores(ScoreTag d, uint64_t i) const {
    const FloatTag df;
    auto change = hn::Sub(Format::load(df, w + i * Format::kBytes), hn::LoadU(df, reference + i));
    if constexpr (kWeighted) change = hn::Mul(change, hn::LoadU(df, weight + i));
    const auto bits = hn::And(hn::BitCast(d, change), hn::Set(d, 0x7FFFFFFF));
    return hn::IfThenElseZero(hn::Lt(bits, hn::Set(d, kScoreLimit)), bits);
  }
  HWY_INLINE int32_t score(uint64_t i) const {
    float change = Format::load1(w + i * Format::kBytes) - reference[i];
    if constexpr (kWeighted) change *= weight[i];
    const auto bits = static_cast<int32_t>(bits_of(change) & 0x7FFFFFFFU);
    return bits < kScoreLimit ? bits : 0;
  }
  void write(uint64_t count, int32_t* out) const {
    const ScoreTag d;
    const size_t lanes = hn::Lanes(d);
    uint64_t i = 0;
    for (; i + lanes <= count; i += lanes) hn::StoreU(scores(d, i), d, out + i);
    for (; i < count; ++i) out[i] = score(i);
  }
};

// Scores that are there already: words across the ends of tensors.
struct Staged {
  const int32_t* staged;
  HWY_INLINE ScoreVector scores(ScoreTag d, uint64_t i) const { return hn::LoadU(d, staged + i); }
};

template <class Source>
void write_scores(const Change& change, ElementCursor& cursor, uint64_t element, uint64_t count,
                  int32_t* out) {
  while (count != 0) {
    cursor.seek(element);
    const uint64_t length = std::min(count, cursor.end() - element);
    Source(change, cursor, element).write(length, out);
    element += length;
    out += length;
    count -= length;
  }
}

// Of one tile.
struct TileScan {
  Scan const* scan;
  SelectionRange* range;
  Survivors* chunk;
  uint64_t ties[kScanTile / kWord];
  uint64_t any_tie;

  void next_chunk() {
    Survivors* next = scan->pool->take();
    if (next == nullptr) {  // the scan is lost; its range goes on to the end of the tile
      chunk->count = 0;
      return;
    }
    chunk->next = next;
    chunk = next;
  }
};

template <class Mask>
HWY_INLINE uint64_t bits_of_mask(ScoreTag d, Mask mask) {
  std::conditional_t<(hn::MaxLanes(ScoreTag()) > 8), uint16_t, uint8_t> bits = 0;
  hn::StoreMaskBits(d, mask, reinterpret_cast<uint8_t*>(&bits));
  return bits;
}

// The lanes of a mask, moved together, and whatever behind them. Not Compress where that looks up a
// table inside of a function: g++ copies the table to the stack each time.
template <class Mask>
HWY_INLINE ScoreVector compress(ScoreTag d, ScoreVector v, Mask mask, uint64_t bits) {
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
  static_cast<void>(mask);
  const hn::Rebind<uint8_t, ScoreTag> d8;
  const auto lanes = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(&kSetBits.lanes[bits]));
  return hn::TableLookupLanes(v, hn::IndicesFromVec(d, hn::PromoteTo(d, lanes)));
#else
  static_cast<void>(d);
  static_cast<void>(bits);
  return hn::Compress(v, mask);
#endif
}

template <class Source>
void scan_words(const Source& source, uint64_t element, uint64_t words, TileScan& tile) {
  const ScoreTag d;
  const size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(d, tile.scan->bracket.low);
  const auto high = hn::Set(d, tile.scan->bracket.high);
  const auto iota = hn::Iota(d, 0);
  uint64_t* const above_out = tile.scan->bits.above + element / kWord;
  uint64_t* const ties_out = tile.ties + element % kScanTile / kWord;
  SelectionRange& range = *tile.range;
  for (uint64_t word = 0; word < words; ++word) {
    if (tile.chunk->count > Survivors::kCapacity - kWord) tile.next_chunk();
    int32_t* const scores_out = tile.chunk->scores;
    uint32_t* const indices_out = tile.chunk->indices;
    const uint32_t before = tile.chunk->count;
    uint32_t count = before;
    uint64_t above = 0, ties = 0;
    for (size_t i = 0; i < kWord; i += lanes) {
      const auto scores = source.scores(d, word * kWord + i);
      const auto is_above = hn::Gt(scores, low);
      const auto is_inside = hn::And(is_above, hn::Lt(scores, high));
      above |= bits_of_mask(d, is_above) << i;
      ties |= bits_of_mask(d, hn::Or(hn::Eq(scores, low), hn::Eq(scores, high))) << i;
      const uint64_t inside = bits_of_mask(d, is_inside);
      const auto index =
          hn::Add(iota, hn::Set(d, static_cast<int32_t>(element + word * kWord + i)));
      hn::StoreU(compress(d, scores, is_inside, inside), d, scores_out + count);
      hn::StoreU(compress(d, index, is_inside, inside), d,
                 reinterpret_cast<int32_t*>(indices_out) + count);
      count += static_cast<uint32_t>(hwy::PopCount(inside));
    }
    tile.chunk->count = count;
    above_out[word] = above;
    ties_out[word] = ties;
    tile.any_tie |= ties;
    range.above_low += hwy::PopCount(above);
    range.inside += count - before;
    range.at_high += hwy::PopCount(ties & above);
    range.at_low += hwy::PopCount(ties & ~above);
  }
}

template <class Source>
void scan_tile(ElementCursor& cursor, uint64_t element, uint64_t end, TileScan& tile) {
  const Change& change = *tile.scan->change;
  while (element < end) {
    cursor.seek(element);
    const uint64_t words = (std::min(end, cursor.end()) - element) / kWord;
    if (words != 0) {
      scan_words(Source(change, cursor, element), element, words, tile);
      element += words * kWord;
      continue;
    }
    int32_t staged[kWord];
    const uint64_t count = std::min<uint64_t>(kWord, end - element);
    write_scores<Source>(change, cursor, element, count, staged);
    std::fill(staged + count, staged + kWord, kNoElement);
    scan_words(Staged{staged}, element, 1, tile);
    element += count;
  }
}

template <class Source>
void scan_as(const Scan& scan, SelectionRange& range) {
  ElementCursor cursor(scan.change->table);
  TileScan tile = {&scan, &range, range.survivors, {}, 0};
  for (uint64_t element = range.begin; element < range.end && !scan.pool->exhausted();
       element += kScanTile) {
    const uint64_t end = std::min(range.end, element + kScanTile);
    tile.any_tie = 0;
    scan_tile<Source>(cursor, element, end, tile);
    scan.bits.tied_tile[element / kScanTile] = tile.any_tie != 0;
    if (tile.any_tie == 0) continue;
    const uint64_t words = (end - element + kWord - 1) / kWord;
    std::copy_n(tile.ties, words, scan.bits.ties + element / kWord);
  }
}

template <class Source>
void count_as(const Change& change, const Buckets& buckets, SelectionRange& range) {
  constexpr uint64_t kRun = 1024;
  int32_t scores[kRun];
  ElementCursor cursor(change.table);
  for (uint64_t element = range.begin; element < range.end; element += kRun) {
    const uint64_t count = std::min(kRun, range.end - element);
    write_scores<Source>(change, cursor, element, count, scores);
    for (uint64_t i = 0; i < count; ++i) buckets.add(scores[i], range.histogram);
  }
}

// For with_format of codec-inl.h.
template <bool kWeighted, class Step>
struct SourceVisitor {
  const Step& step;
  template <class Format>
  void run() const {
    step.template operator()<Direct<Format, kWeighted>>();
  }
};

// step<Source>() with the source of the change's scores.
template <class Step>
void with_source(const Change& change, const Step& step) {
  const DefaultFloatEnvironment environment;
  if (change.weight != nullptr) {
    with_format(change.table.storage, SourceVisitor<true, Step>{step});
  } else {
    with_format(change.table.storage, SourceVisitor<false, Step>{step});
  }
}

// The lowest `quota` of the bits; takes them off it.
HWY_INLINE uint64_t lowest(uint64_t bits, uint64_t& quota) {
  const uint64_t count = hwy::PopCount(bits);
  if (count <= quota) {
    quota -= count;
    return bits;
  }
  uint64_t rest = bits;
  for (; quota != 0; --quota) rest &= rest - 1;
  return bits ^ rest;
}

HWY_INLINE uint32_t index_of_lowest(uint64_t bits, uint64_t element) {
  return static_cast<uint32_t>(element + hwy::Num0BitsBelowLS1Bit_Nonzero64(bits));
}

// As many as there are, and not one more.
uint32_t* write_last_indices(uint64_t bits, uint64_t element, uint32_t* out) {
  for (; bits != 0; bits &= bits - 1) *out++ = index_of_lowest(bits, element);
  return out;
}

// Writes up to a vector, or three, beyond the indices that are returned: the next ones go there.
HWY_INLINE uint32_t* write_indices(uint64_t bits, uint64_t element, uint32_t* out) {
  constexpr uint64_t kFew = 8, kStep = 4;
  const uint64_t all = hwy::PopCount(bits);
  if (all <= kFew) {  // one by one, but with few branches that guess wrong
    constexpr uint64_t kStop = uint64_t{1} << 63;
    for (uint64_t begin = 0; begin < all; begin += kStep) {
      for (uint64_t i = 0; i < kStep; ++i) {
        out[begin + i] = index_of_lowest(bits | kStop, element);
        bits &= bits - 1;
      }
    }
    return out + all;
  }
  const ScoreTag d;
  const size_t lanes = hn::Lanes(d);
  const auto iota = hn::Iota(d, 0);
  for (size_t i = 0; i < kWord; i += lanes) {
    const auto mask = hn::LoadMaskBits(d, reinterpret_cast<const uint8_t*>(&bits));
    const auto index = hn::Add(iota, hn::Set(d, static_cast<int32_t>(element + i)));
    const uint64_t here = bits & ((uint64_t{1} << lanes) - 1);
    hn::StoreU(compress(d, index, mask, here), d, reinterpret_cast<int32_t*>(out));
    out += hwy::PopCount(here);
    bits >>= lanes;
  }
  return out;
}

// Without a branch on the score: it would guess wrong every other time.
void drop_losers(const Emission& emission, SelectionRange& range) {
  uint64_t quota = range.ties;
  for (const Survivors* chunk = range.survivors; chunk != nullptr; chunk = chunk->next) {
    for (uint32_t i = 0; i < chunk->count; ++i) {
      const int32_t score = chunk->scores[i];
      const uint64_t index = chunk->indices[i];
      const uint64_t tie =
          static_cast<uint64_t>(score == emission.threshold) & static_cast<uint64_t>(quota != 0);
      const uint64_t wins = static_cast<uint64_t>(score > emission.threshold) | tie;
      quota -= tie;
      emission.bits.above[index / kWord] &= ~((wins ^ 1) << (index % kWord));
    }
  }
  range.ties = quota;
}

void scan(const Scan& scan, SelectionRange& range) {
  with_source(*scan.change, [&]<class Source>() { scan_as<Source>(scan, range); });
}

void count(const Change& change, const Buckets& buckets, SelectionRange& range) {
  with_source(change, [&]<class Source>() { count_as<Source>(change, buckets, range); });
}

void scores(const Change& change, uint64_t first, uint64_t count, int32_t* out) {
  with_source(change, [&]<class Source>() {
    ElementCursor cursor(change.table);
    write_scores<Source>(change, cursor, first, count, out);
  });
}

void emit(const Emission& emission, SelectionRange& range) {
  drop_losers(emission, range);
  const bool at_low = emission.threshold == emission.bracket.low;
  const bool at_high = !at_low && emission.threshold == emission.bracket.high;
  constexpr ptrdiff_t kRoom = kWord + 16;
  uint32_t* out = emission.indices + range.first_out;
  const uint32_t* const end = out + range.selected;
  for (uint64_t element = range.begin; element < range.end && out != end; element += kWord) {
    uint64_t bits = emission.bits.above[element / kWord];
    if (emission.bits.tied_tile[element / kScanTile] != 0) {
      const uint64_t ties = emission.bits.ties[element / kWord];
      if (at_low) bits |= lowest(ties & ~bits, range.ties);
      if (at_high) bits = (bits & ~ties) | lowest(ties & bits, range.ties);
    }
    if (bits == 0) continue;
    out = end - out < kRoom ? write_last_indices(bits, element, out)
                            : write_indices(bits, element, out);
  }
}

}  // namespace
}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {

HWY_EXPORT(scan);
HWY_EXPORT(count);
HWY_EXPORT(scores);
HWY_EXPORT(emit);

void scan_range(const Scan& scan, SelectionRange& range) {
  HWY_DYNAMIC_DISPATCH(scan)(scan, range);
}
void count_range(const Change& change, const Buckets& buckets, SelectionRange& range) {
  HWY_DYNAMIC_DISPATCH(count)(change, buckets, range);
}
void score_run(const Change& change, uint64_t first, uint64_t count, int32_t* out) {
  HWY_DYNAMIC_DISPATCH(scores)(change, first, count, out);
}
void emit_range(const Emission& emission, SelectionRange& range) {
  HWY_DYNAMIC_DISPATCH(emit)(emission, range);
}

}  // namespace asyncmesh::kernels
#endif
