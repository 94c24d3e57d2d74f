// Visits the values of a subset in order, and has them fetched before.
//
// The blocks lie in random order over the table, so that the hardware prefetcher has nothing to
// follow; what makes them fast is that the same amount of memory is on its way at any time. Blocks
// are cut into pieces, and every visit of a piece asks for the one that comes some kilobytes later.
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

#include "kernels/cpu/block_finder.h"
#include "kernels/cpu/permutation-inl.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/permutation.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

inline constexpr uint64_t kPiece = 128;  // elements, at most

// What to walk: blocks [begin, end) of a subset.
struct WalkPlan {
  WalkPlan(const ParameterTable& table, const Subset& of, uint64_t first, uint64_t last)
      : finder(table, of), permutation(of.key, of.blocks), subset(of), begin(first), end(last) {}

  BlockFinder finder;
  Permutation permutation;
  const Subset& subset;
  uint64_t begin;
  uint64_t end;
};

// One by one in order. kWhole: no block has more than a piece.
template <bool kWhole>
class PieceSource {
 public:
  HWY_INLINE explicit PieceSource(const WalkPlan& plan) : plan_(plan), at_(plan.begin) {
    fill(at_);
  }

  HWY_INLINE bool more() const { return at_ != plan_.end || (!kWhole && rest_.count != 0); }

  // make(const BlockPlace&, uint64_t block) of the next piece.
  template <class Make>
  HWY_INLINE auto take(const Make& make) {
    if (kWhole || rest_.count == 0) {
      const uint64_t number = at_ - plan_.begin;
      if (HWY_UNLIKELY(number % kBatch == 0)) fill(at_ + kBatch);
      ++at_;
      const uint64_t block = blocks_[number / kBatch % 2][number % kBatch];
      if constexpr (kWhole) return make(plan_.finder.find(block), block);
      block_ = block;
      rest_ = plan_.finder.find(block);
    }
    BlockPlace piece = rest_;
    if (piece.count > kPiece) piece.count = kPiece;
    rest_.count -= piece.count;
    rest_.offset += piece.count;
    rest_.element += piece.count;
    return make(piece, block_);
  }

 private:
  static constexpr uint64_t kBatch = 64;

  // The numbers of a batch of blocks, a batch before they are needed: that hides what it takes.
  HWY_INLINE void fill(uint64_t from) {
    if (from >= plan_.end) return;
    const uint64_t left = plan_.end - from;
    const Subset& subset = plan_.subset;
    permuted_blocks(plan_.permutation, subset.part + from * subset.parts, subset.parts,
                    left < kBatch ? left : kBatch, blocks_[(from - plan_.begin) / kBatch % 2]);
  }

  const WalkPlan& plan_;
  uint64_t at_;
  BlockPlace rest_ = {};
  uint64_t block_ = 0;
  uint64_t blocks_[2][kBatch + HWY_LANES(uint32_t)];
};

template <bool kWhole, class Item, class Make, class Prefetch, class Visit>
HWY_INLINE void walk_from(const WalkPlan& plan, size_t stream_bytes, const Make& make,
                          const Prefetch& prefetch, const Visit& visit) {
  constexpr uint32_t kRing = 64;
  constexpr size_t kAhead = 8192;  // bytes: well within a first-level cache
  const size_t piece = (kWhole ? plan.subset.granularity : kPiece) * stream_bytes;
  const auto ahead =
      static_cast<uint32_t>(HWY_MIN(HWY_MAX(kAhead / piece, size_t{4}), size_t{kRing - 1}));
  PieceSource<kWhole> pieces(plan);
  Item ring[kRing];
  uint32_t made = 0;
  for (; made < ahead && pieces.more(); ++made) {
    ring[made] = pieces.take(make);
    prefetch(ring[made]);
  }
  for (uint32_t visited = 0; visited != made; ++visited) {
    if (HWY_LIKELY(pieces.more())) {
      const Item next = pieces.take(make);
      prefetch(next);
      ring[made++ % kRing] = next;
    }
    if (HWY_UNLIKELY(!visit(ring[visited % kRing]))) return;
  }
}

// make(place, block) for every piece and prefetch(item) of what it returns; a while later
// visit(item), in order. Ends when visit returns false. `stream_bytes`: of one element, over all
// arrays that lie in table order.
template <class Item, class Make, class Prefetch, class Visit>
HWY_INLINE void walk_pieces(const WalkPlan& plan, size_t stream_bytes, const Make& make,
                            const Prefetch& prefetch, const Visit& visit) {
  if (plan.subset.granularity <= kPiece) {
    walk_from<true, Item>(plan, stream_bytes, make, prefetch, visit);
  } else {
    walk_from<false, Item>(plan, stream_bytes, make, prefetch, visit);
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
