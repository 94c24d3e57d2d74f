// How many of `trials` coins fall on heads, from one uniform draw.
//
// A random subset is "heads or tails per block". Its size is binomial, and given the size all
// subsets are equally likely: so one draw of the size and the first blocks of a fresh permutation
// give the same subsets as a coin per block, and nobody has to look at the blocks that are left
// out.
//
// By inversion, from the mode outwards, with weights that follow from each other by one product and
// one quotient: O(standard deviation) steps, no table. All members must draw the same number, so
// only operations that IEEE 754 defines to the last bit are used (no library functions but the
// square root), and the file is compiled without contraction to fma. Sizes further than 8 standard
// deviations and 16 from the mode are never drawn (probability below 1e-14): `most` is a hard
// bound, for buffers.
//
// A value. Threads: const functions from any thread.
#pragma once

#include <cstdint>

namespace asyncmesh {

class Binomial {
 public:
  Binomial() = default;
  // trials < 2^53, 0 < probability <= 1.
  Binomial(uint64_t trials, double probability) noexcept;

  uint64_t draw(uint64_t uniform) const noexcept;  // uniform over all 64-bit numbers
  uint64_t least() const noexcept { return mode_ > radius_ ? mode_ - radius_ : 0; }
  uint64_t most() const noexcept { return trials_ - mode_ > radius_ ? mode_ + radius_ : trials_; }

 private:
  // visit(size, weight) from the mode outwards, until it returns true or there is no more.
  template <typename Visit>
  void outwards(Visit visit) const noexcept;

  uint64_t trials_ = 0;
  uint64_t mode_ = 0;
  uint64_t radius_ = 0;
  double odds_ = 0;   // probability / (1 - probability)
  double total_ = 1;  // of the weights, that of the mode being 1
};

}  // namespace asyncmesh
