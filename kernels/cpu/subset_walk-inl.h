// Visits the values of a subset in order, and has them fetched before.
//
// The blocks lie in random order over the table, so that the hardware prefetcher has nothing to
// follow; what makes them fast is that the same amount of memory is on its way at any time. Blocks
// are cut into pieces, and every visit of a piece asks for the one that comes some kilobytes later.
//
// Pieces come in batches, so that the loop that moves the data has few instructions and its state
// in registers: a core looks ahead some hundred instructions only, and what finds the places does
// not fit beside it.
//
// Included once per target, as codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_SUBSET_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_SUBSET_WALK_INL_H_
#undef ASYNCMESH_KERNELS_CPU_SUBSET_WALK_INL_H_
#else
#define ASYNCMESH_KERNELS_CPU_SUBSET_WALK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/block_finder.h"
#include "kernels/cpu/permutation-inl.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/permutation.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

inline constexpr uint64_t kPiece = 64;  // elements, at most
// How far ahead a table is asked for where little else is: well within a first-level cache.
inline constexpr size_t kTableAheadBytes = 8192;

// What to walk: blocks [begin, end) of a subset.
struct WalkPlan {
  WalkPlan(const ParameterTable& table, const Subset& of, uint64_t first, uint64_t last)
      : finder(table, of),
        permutation(of.key, of.blocks),
        subset(of),
        word(encoded_bytes(table.storage, 1)),
        begin(first),
        end(last) {}

  BlockFinder finder;
  Permutation permutation;
  const Subset& subset;
  size_t word;  // bytes of a value
  uint64_t begin;
  uint64_t end;
};

// Up to kSize pieces. A batch that is not full repeats its last piece. Items have a `count` of
// elements.
template <class Item, uint32_t kSize>
struct Batch {
  static constexpr uint32_t kPieces = kSize;

  Item items[kPieces];
  uint32_t count;
  uint64_t values;  // of all pieces

  // Full, and no piece is short.
  HWY_INLINE bool whole() const { return values == kPieces * kPiece; }
};

// Batches of pieces, in order. kWhole: no block has more than a piece.
template <bool kWhole>
class PieceSource {
 public:
  HWY_INLINE explicit PieceSource(const WalkPlan& plan) : plan_(plan), at_(plan.begin) {
    fill(at_);
  }

  HWY_INLINE bool more() const { return at_ != plan_.end || (!kWhole && rest_.count != 0); }

  // The next ones, as make(const BlockPlace&, uint64_t block, Item& item_out) says. There must be
  // more.
  template <class Batch, class Make>
  HWY_INLINE void take(const Make& make, Batch& batch) {
    static_assert(kNumbers % Batch::kPieces == 0);
    uint32_t count = 0;
    uint64_t values = 0;
    if constexpr (kWhole) {
      const uint64_t* const blocks = next_numbers();
      const auto left = static_cast<uint32_t>(HWY_MIN(plan_.end - at_, uint64_t{Batch::kPieces}));
      for (; count != left; ++count) {
        const BlockPlace place = plan_.finder.find(blocks[count]);
        values += place.count;
        make(place, blocks[count], batch.items[count]);
      }
      at_ += left;
    } else {
      for (; count != Batch::kPieces && more(); ++count) {
        const BlockPlace piece = take_piece();
        values += piece.count;
        make(piece, block_, batch.items[count]);
      }
    }
    batch.count = count;
    batch.values = values;
    for (; count != Batch::kPieces; ++count) batch.items[count] = batch.items[count - 1];
  }

 private:
  static constexpr uint64_t kNumbers = 64;

  HWY_INLINE BlockPlace take_piece() {
    if (rest_.count == 0) {
      block_ = *next_numbers();
      ++at_;
      rest_ = plan_.finder.find(block_);
    }
    BlockPlace piece = rest_;
    if (piece.count > kPiece) piece.count = kPiece;
    rest_.count -= piece.count;
    rest_.data += piece.count * plan_.word;
    rest_.offset += piece.count;
    rest_.element += piece.count;
    return piece;
  }

  HWY_INLINE const uint64_t* next_numbers() {
    const uint64_t number = at_ - plan_.begin;
    if (HWY_UNLIKELY(number % kNumbers == 0)) fill(at_ + kNumbers);
    return blocks_[number / kNumbers % 2] + number % kNumbers;
  }
  // The numbers of some blocks, as many before they are needed: that hides what it takes.
  HWY_INLINE void fill(uint64_t from) {
    if (from >= plan_.end) return;
    const uint64_t left = plan_.end - from;
    const Subset& subset = plan_.subset;
    permuted_blocks(plan_.permutation, subset.part + from * subset.parts, subset.parts,
                    left < kNumbers ? left : kNumbers,
                    blocks_[(from - plan_.begin) / kNumbers % 2]);
  }

  const WalkPlan& plan_;
  uint64_t at_;
  BlockPlace rest_ = {};
  uint64_t block_ = 0;
  uint64_t blocks_[2][kNumbers];
};

template <bool kWhole, class Batch, class Make, class Prefetch, class Visit>
HWY_INLINE void walk_from(const WalkPlan& plan, uint64_t ahead_values, const Make& make,
                          const Prefetch& prefetch, const Visit& visit) {
  constexpr uint64_t kRing = 16;
  const uint64_t values = Batch::kPieces * (kWhole ? plan.subset.granularity : kPiece);
  const auto ahead = static_cast<uint32_t>(HWY_MIN(HWY_MAX(ahead_values / values, 1), kRing - 1));
  PieceSource<kWhole> pieces(plan);
  Batch ring[kRing];
  uint32_t made = 0;
  for (; made < ahead && pieces.more(); ++made) {
    pieces.take(make, ring[made]);
    for (const auto& item : ring[made].items) prefetch(item);
  }
  for (uint32_t visited = 0; visited != made; ++visited) {
    const Batch& batch = ring[visited % kRing];
    const Batch* later = &batch;  // at the end: nothing new
    if (HWY_LIKELY(pieces.more())) {
      pieces.take(make, ring[made % kRing]);
      later = &ring[made++ % kRing];
    }
    if (HWY_UNLIKELY(!visit(batch, *later))) return;
  }
}

// make(place, block, item_out) for every piece, in place: an item that is put together elsewhere
// and copied wider than it was written waits until all stores before it are through, those to
// memory that is still on its way among them. prefetch(item) for the first ones; then visit(const
// Batch& batch, const Batch& later) in order, which prefetches the items of `later` while it goes
// through those of `batch`. Ends when visit returns false. `ahead_values`: how far `later` is
// ahead; what is prefetched for them fits in a part of a first-level cache.
template <class Batch, class Make, class Prefetch, class Visit>
HWY_INLINE void walk_batches(const WalkPlan& plan, uint64_t ahead_values, const Make& make,
                             const Prefetch& prefetch, const Visit& visit) {
  if (plan.subset.granularity <= kPiece) {
    walk_from<true, Batch>(plan, ahead_values, make, prefetch, visit);
  } else {
    walk_from<false, Batch>(plan, ahead_values, make, prefetch, visit);
  }
}

// body(item, count, next, next_count) for every item of a batch and the one of a later batch that
// is to be prefetched meanwhile, and their counts. Those are constants where both batches are
// whole, for loops without a counter: the fewer instructions, the more of the memory's latency they
// hide.
template <class Batch, class Body>
HWY_INLINE void for_each_piece(const Batch& batch, const Batch& later, Body&& body) {
  if (HWY_LIKELY(batch.whole() && later.whole())) {
    constexpr std::integral_constant<uint64_t, kPiece> kWhole;
    for (uint32_t i = 0; i < Batch::kPieces; ++i)
      body(batch.items[i], kWhole, later.items[i], kWhole);
    return;
  }
  for (uint32_t i = 0; i < batch.count; ++i) {
    const auto &item = batch.items[i], &next = later.items[i];
    body(item, uint64_t{item.count}, next, uint64_t{next.count});
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
