// Which blocks of a parameter table belong to which round.
//
// A table is a list of tensors. Blocks of `granularity` consecutive elements never cross tensors
// and are numbered over the whole table. Subsets are a pure function of (seed, group key, round):
// every member derives the same ones without talking.
//
// Rotation: N = min(ceil(1 / fraction), blocks) parts; round k uses part k % N of cycle k / N.
// Every cycle draws a new keyed permutation (or all share one). With one element per block and one
// table per tensor this is the partition of the published code.
//
// Random: each block is in each round with probability `fraction`, independently. A round is a
// cycle by itself (N = 1), of which the part takes as many blocks as were drawn: maybe none.
//
// Immutable after construction but for `rebind`. Threads: const functions from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "averaging/binomial.h"
#include "averaging/config.h"
#include "base/status.h"
#include "kernels/kernels.h"

namespace asyncmesh {

// N. 1 / fraction is taken to within one part in a million, so that neither 1 / 0.05 computed with
// an error in the last place nor a fraction that passed through a 32-bit float gains a part.
uint32_t parts_of(double fraction, uint64_t blocks);

class Partition {
 public:
  // `first_block` of the tensors is ignored and set here. InvalidArgument: no element, a null
  // tensor, a storage that no table has, a fraction outside (0, 1], granularity 0, too many blocks.
  static Result<Partition> create(const AveragerConfig& config,
                                  const kernels::ParameterTable& table);

  uint32_t parts() const { return parts_; }        // N; 1 when random
  uint64_t blocks() const { return blocks_; }      // in the table
  uint64_t elements() const { return elements_; }  // in the table
  std::span<const kernels::TensorView> tensors() const { return tensors_; }
  kernels::ParameterTable table() const {
    return {.tensors = tensors_.data(),
            .size = static_cast<uint32_t>(tensors_.size()),
            .storage = storage_};
  }

  kernels::Subset subset(uint64_t round) const;
  // Elements of a subset; O(tensors), where walking its blocks would be O(blocks / N).
  uint64_t elements_of(const kernels::Subset& subset) const;
  uint64_t max_elements() const { return max_elements_; }  // no subset has more
  // The part number of every element of the table, in table order, in cycle `cycle`; kNoPart where
  // no round of the cycle takes it (random only). `parts_out` has elements() entries.
  static constexpr uint32_t kNoPart = UINT32_MAX;
  void part_of_elements(uint64_t cycle, uint32_t* parts_out) const;

  // Follows tensors that moved. InvalidArgument unless number, counts and storage are the same.
  Status rebind(const kernels::ParameterTable& table);

 private:
  struct Tail {
    uint64_t block = 0;    // a last block that is short
    uint64_t missing = 0;  // elements it lacks
  };
  uint64_t key_of(uint64_t cycle) const;

  std::vector<kernels::TensorView> tensors_;
  kernels::Encoding storage_ = kernels::Encoding::kFloat32;
  std::vector<Tail> tails_;
  uint64_t blocks_ = 0;
  uint64_t elements_ = 0;
  uint64_t max_elements_ = 0;
  uint64_t seed_ = 0;
  uint64_t group_key_ = 0;
  uint32_t parts_ = 1;
  uint32_t granularity_ = 1;
  Redraw redraw_ = Redraw::kEveryCycle;
  bool random_ = false;
  Binomial size_;  // random: of a subset, in blocks
};

}  // namespace asyncmesh
