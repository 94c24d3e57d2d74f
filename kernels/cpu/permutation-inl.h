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

  HWY_INLINE void operator()(GridVector& row, GridVector& column) const {
    const GridTag d;
    for (int round = Permutation::kRounds - 2; round >= 0; round -= 2) {
      const auto row_key = hn::Set(d, permutation_.key(round + 1));
      column = hn::Xor(column, hn::ShiftRightSame(mixed(hn::Xor(row, row_key)), column_shift_));
      const auto column_key = hn::Set(d, permutation_.key(round));
      const auto step = multiply_high(mixed(hn::Xor(column, column_key)), rows_);
      row = hn::Sub(hn::Add(row, rows_), step);
      row = hn::Min(row, hn::Sub(row, rows_));  // wraps around where row is below rows
    }
  }

 private:
  const Permutation& permutation_;
  GridVector rows_;
  int column_shift_;
};

// blocks[i] = permutation.inverse(first + i * step) for i in [0, count); writes whole vectors, so
// that `blocks` has room for as many as a vector holds more.
HWY_INLINE void permuted_blocks(const Permutation& permutation, uint64_t first, uint64_t step,
                                size_t count, uint64_t* blocks) {
  if (permutation.identity()) {
    for (size_t i = 0; i < count; ++i) blocks[i] = first + i * step;
    return;
  }
  const GridTag d;
  const hn::RepartitionToWide<GridTag> wide;
  const hn::Half<GridTag> half;
  const int bits = static_cast<int>(permutation.column_bits());
  const auto mask = hn::Set(d, (1U << bits) - 1);
  const InverseGrid grid(permutation);
  HWY_ALIGN uint64_t steps[HWY_LANES(uint32_t)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) steps[i] = i * step;
  const auto low_steps = hn::Load(wide, steps),
             high_steps = hn::Load(wide, steps + hn::Lanes(wide));
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto base = hn::Set(wide, first + i * step);
    const auto low = hn::Add(base, low_steps), high = hn::Add(base, high_steps);
    auto column = hn::And(hn::ConcatEven(d, hn::BitCast(d, high), hn::BitCast(d, low)), mask);
    auto row = hn::ConcatEven(d, hn::BitCast(d, hn::ShiftRightSame(high, bits)),
                              hn::BitCast(d, hn::ShiftRightSame(low, bits)));
    grid(row, column);
    const auto join = [&](auto rows, auto columns) HWY_ATTR {
      return hn::Or(hn::ShiftLeftSame(hn::PromoteTo(wide, rows), bits),
                    hn::PromoteTo(wide, columns));
    };
    hn::StoreU(join(hn::LowerHalf(half, row), hn::LowerHalf(half, column)), wide, blocks + i);
    hn::StoreU(join(hn::UpperHalf(half, row), hn::UpperHalf(half, column)), wide,
               blocks + i + hn::Lanes(wide));
  }
  // What landed in the surplus of the grid walks on: less than one in a row's length.
  for (size_t i = 0; i < count; ++i) {
    if (HWY_UNLIKELY(blocks[i] >= permutation.blocks())) blocks[i] = permutation.inverse(blocks[i]);
  }
}

#endif

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
