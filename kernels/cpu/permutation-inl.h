// The inverse of the keyed permutation for many positions at a time. Included once per target, as
// codec-inl.h.
#if defined(ASYNCMESH_KERNELS_CPU_PERMUTATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASYNCMESH_KERNELS_CPU_PERMUTATION_INL_H_
#undef ASYNCMESH_KERNELS_CPU_PERMUTATION_INL_H_
#else
#define ASYNCMESH_KERNELS_CPU_PERMUTATION_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/permutation.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void permuted_blocks(const Permutation& permutation, uint64_t first, uint64_t step,
                                size_t count, uint64_t* blocks) {
  for (size_t i = 0; i < count; ++i) blocks[i] = permutation.inverse(first + i * step);
}

#else

using GridTag = hn::ScalableTag<uint32_t>;
using GridVector = hn::VFromD<GridTag>;

HWY_INLINE GridVector mixed(GridVector value) {
  const GridTag d;
  value = hn::Mul(value, hn::Set(d, 0x9E3779B1U));
  value = hn::Xor(value, hn::ShiftRight<15>(value));
  return hn::Mul(value, hn::Set(d, 0x85EBCA6BU));
}

// The upper halves of the products.
HWY_INLINE GridVector multiply_high(GridVector a, GridVector b) {
  const GridTag d;
  const hn::RepartitionToWide<GridTag> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  return hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// Permutation::inverse without the walk.
struct InverseGrid {
  HWY_INLINE explicit InverseGrid(const Permutation& permutation)
      : permutation_(permutation),
        rows_(hn::Set(GridTag(), permutation.rows())),
        column_shift_(static_cast<int>(32 - permutation.column_bits())) {}

  // Some vectors at a time: one alone would mostly wait for its multiplications.
  template <size_t kCount>
  HWY_INLINE void operator()(GridVector (&rows)[kCount], GridVector (&columns)[kCount]) const {
    const GridTag d;
    for (int round = Permutation::kRounds - 2; round >= 0; round -= 2) {
      const auto row_key = hn::Set(d, permutation_.key(round + 1));
      const auto column_key = hn::Set(d, permutation_.key(round));
      for (size_t i = 0; i < kCount; ++i) {
        const auto hash = mixed(hn::Xor(rows[i], row_key));
        columns[i] = hn::Xor(columns[i], hn::ShiftRightSame(hash, column_shift_));
        const auto step = multiply_high(mixed(hn::Xor(columns[i], column_key)), rows_);
        const auto row = hn::Sub(hn::Add(rows[i], rows_), step);
        rows[i] = hn::Min(row, hn::Sub(row, rows_));  // wraps around where row is below rows_
      }
    }
  }

 private:
  const Permutation& permutation_;
  GridVector rows_;
  int column_shift_;
};

// The grid's places of vectors of numbers first + i * step.
class GridNumbers {
 public:
  HWY_INLINE GridNumbers(uint64_t step, int column_bits)
      : column_bits_(column_bits), mask_(hn::Set(GridTag(), (1U << column_bits) - 1)) {
    HWY_ALIGN uint64_t steps[HWY_LANES(uint32_t)];
    for (size_t i = 0; i < hn::Lanes(GridTag()); ++i) steps[i] = i * step;
    low_ = hn::Load(Wide(), steps);
    high_ = hn::Load(Wide(), steps + hn::Lanes(Wide()));
  }

  HWY_INLINE void place(uint64_t first, GridVector& row, GridVector& column) const {
    const GridTag d;
    const auto base = hn::Set(Wide(), first);
    const auto low = hn::Add(base, low_), high = hn::Add(base, high_);
    column = hn::And(hn::ConcatEven(d, hn::BitCast(d, high), hn::BitCast(d, low)), mask_);
    row = hn::ConcatEven(d, hn::BitCast(d, hn::ShiftRightSame(high, column_bits_)),
                         hn::BitCast(d, hn::ShiftRightSame(low, column_bits_)));
  }
  HWY_INLINE void store(GridVector row, GridVector column, uint64_t* numbers) const {
    const hn::Half<GridTag> half;
    const auto join = [this](auto rows, auto columns) HWY_ATTR {
      return hn::Or(hn::ShiftLeftSame(hn::PromoteTo(Wide(), rows), column_bits_),
                    hn::PromoteTo(Wide(), columns));
    };
    hn::StoreU(join(hn::LowerHalf(half, row), hn::LowerHalf(half, column)), Wide(), numbers);
    hn::StoreU(join(hn::UpperHalf(half, row), hn::UpperHalf(half, column)), Wide(),
               numbers + hn::Lanes(Wide()));
  }

 private:
  using Wide = hn::RepartitionToWide<GridTag>;

  int column_bits_;
  GridVector mask_;
  hn::VFromD<Wide> low_, high_;
};

// blocks[i] = permutation.inverse(first + i * step) for i in [0, count); may write all of
// blocks[0, 64). count <= 64.
HWY_INLINE void permuted_blocks(const Permutation& permutation, uint64_t first, uint64_t step,
                                size_t count, uint64_t* blocks) {
  if (permutation.identity()) {
    for (size_t i = 0; i < count; ++i) blocks[i] = first + i * step;
    return;
  }
  constexpr size_t kVectors = 4;
  const GridTag d;
  const size_t lanes = hn::Lanes(d);
  static_assert(64 % (kVectors * HWY_LANES(uint32_t)) == 0);
  const GridNumbers numbers(step, static_cast<int>(permutation.column_bits()));
  const InverseGrid inverse(permutation);
  auto last_row = hn::Zero(d);
  for (size_t i = 0; i < count; i += kVectors * lanes) {
    GridVector rows[kVectors], columns[kVectors];
    for (size_t k = 0; k < kVectors; ++k) {
      numbers.place(first + (i + k * lanes) * step, rows[k], columns[k]);
    }
    inverse(rows, columns);
    for (size_t k = 0; k < kVectors; ++k) {
      numbers.store(rows[k], columns[k], blocks + i + k * lanes);
      last_row = hn::Max(last_row, rows[k]);
    }
  }
  // What landed in the surplus of the grid, in its last row, walks on. (Lanes behind `count` may
  // lie anywhere.)
  if (hn::AllTrue(d, hn::Lt(last_row, hn::Set(d, permutation.rows() - 1)))) return;
  for (size_t i = 0; i < count; ++i) {
    if (HWY_UNLIKELY(blocks[i] >= permutation.blocks())) blocks[i] = permutation.inverse(blocks[i]);
  }
}

#endif

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
