// One call of top_change: its plan, its ranges and its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/cpu/top_change.h"

namespace asyncmesh::kernels {

// How the workspace is cut, for a number of elements and a k.
struct SelectionPlan {
  SelectionPlan(uint64_t elements, uint64_t k) noexcept;

  uint64_t ranges;     // at most
  uint64_t sampled;    // scores in the sample; 0: all elements count as inside the bracket
  uint64_t chunks;     // of survivors
  uint64_t survivors;  // that surely fit, however they are spread over chunks
  // Offsets.
  size_t above, ties, tied_tile, histograms, pool, bytes;
};

class ChangeSelection {
 public:
  // 0 < k <= elements. The workspace is as SelectionPlan says; all of it must outlive this.
  ChangeSelection(const Change& change, uint64_t k, void* workspace, Workers* workers) noexcept;

  // A bracket that holds the k-th score but for bad luck.
  Bracket sampled_bracket() noexcept;
  // Around a guess at the k-th score; nothing where a small sample speaks against it.
  std::optional<Bracket> guessed_bracket(float score) noexcept;
  // The pass. False: the k-th score is not in the bracket, or too many are inside.
  bool collect(const Bracket& bracket) noexcept;
  // Passes that count, until collect with what is returned cannot fail.
  Bracket exact_bracket() noexcept;
  // After collect: writes the indices and returns the bits of the k-th score.
  int32_t finish(uint32_t* indices) noexcept;

  uint32_t passes() const noexcept { return passes_; }

 private:
  enum class Place { kHigh, kInside, kLow };  // of the k-th score

  template <typename Task>
  void for_each_range(const Task& task) noexcept;
  double share() const noexcept { return static_cast<double>(k_) / static_cast<double>(elements_); }
  int32_t* draw_sample(uint64_t size) noexcept;
  SelectionRange total() const noexcept;
  // The bucket that holds the rank-th largest; takes those above it off the rank.
  uint32_t find_bucket(uint64_t& rank, uint64_t& in_bucket) const noexcept;
  int32_t nth_inside(uint64_t rank, uint64_t& ties) noexcept;
  void share_out(Place place, uint64_t ties) noexcept;

  const Change change_;
  const uint64_t elements_;
  const uint64_t k_;
  const SelectionPlan plan_;
  std::byte* const workspace_;
  Workers* const workers_;
  const uint32_t size_;  // ranges
  ScoreBits bits_;
  Bracket bracket_;
  SurvivorPool pool_;
  uint32_t passes_ = 0;
  SelectionRange ranges_[kMaxRanges];
};

}  // namespace asyncmesh::kernels
