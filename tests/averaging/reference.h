// Sections 2 and 3 of the method in double precision, straight from the equations: R replicas in
// lockstep, round t applied exactly `delay` calls after it was sampled.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "averaging/config.h"

namespace asyncmesh::test {

class Reference {
 public:
  // part_of(cycle)[element]
  using PartOf = std::function<std::vector<uint32_t>(uint64_t cycle)>;

  Reference(const AveragerConfig& config, uint32_t replicas, uint64_t elements, uint32_t parts,
            PartOf part_of);

  // Of all replicas, after their steps. weight[r] is r's in the round that starts now.
  void call(double progress, const std::vector<double>& weights_of_round);
  std::vector<double>& weights(uint32_t replica) { return w_[replica]; }
  const std::vector<double>& ema(uint32_t replica) const { return e_[replica]; }

 private:
  struct Entry {
    std::vector<uint64_t> subset;
    std::vector<double> mean;
    std::vector<std::vector<double>> own;
    uint32_t contributors = 0;
  };
  void start(const std::vector<double>& weights_of_round);
  void apply(const Entry& entry, double momentum);

  AveragerConfig config_;
  uint64_t elements_;
  uint32_t parts_;
  PartOf part_of_;
  std::vector<uint32_t> part_;  // of the current cycle
  uint64_t calls_ = 0;
  std::deque<Entry> queue_;
  std::vector<std::vector<double>> w_;
  std::vector<std::vector<double>> e_;
  std::vector<uint8_t> visited_;
  bool any_ = false;
};

}  // namespace asyncmesh::test
