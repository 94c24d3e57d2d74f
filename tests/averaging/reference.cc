#include "averaging/reference.h"

#include <utility>

#include "averaging/schedule.h"

namespace asyncmesh::test {

using kernels::Rule;

Reference::Reference(const AveragerConfig& config, uint32_t replicas, uint64_t elements,
                     uint32_t parts, PartOf part_of)
    : config_(config),
      elements_(elements),
      parts_(parts),
      part_of_(std::move(part_of)),
      w_(replicas, std::vector<double>(elements, 0.0)),
      e_(replicas, std::vector<double>(elements, 0.0)),
      visited_(elements, 0) {}

void Reference::start(const std::vector<double>& weights_of_round) {
  const uint64_t turn = calls_ % parts_;
  if (turn == 0) part_ = part_of_(calls_ / parts_);
  Entry entry;
  for (uint64_t i = 0; i < elements_; ++i) {
    if (part_[i] == turn) entry.subset.push_back(i);
  }
  double total = 0;
  entry.mean.assign(entry.subset.size(), 0.0);
  for (size_t r = 0; r < w_.size(); ++r) {
    std::vector<double> own;
    for (size_t j = 0; j < entry.subset.size(); ++j) {
      own.push_back(w_[r][entry.subset[j]]);
      entry.mean[j] += weights_of_round[r] * own.back();
    }
    total += weights_of_round[r];
    entry.contributors += weights_of_round[r] > 0 ? 1 : 0;
    entry.own.push_back(std::move(own));
  }
  for (double& value : entry.mean) value /= total;
  queue_.push_back(std::move(entry));
}

void Reference::apply(const Entry& entry, double momentum) {
  if (entry.contributors < 2) return;
  for (size_t j = 0; j < entry.subset.size(); ++j) {
    const uint64_t i = entry.subset[j];
    const bool full = config_.init == EmaInit::kFirstVisit
                          ? visited_[i] == 0
                          : config_.init == EmaInit::kParity && !any_;
    for (size_t r = 0; r < w_.size(); ++r) {
      const double drift = w_[r][i] - entry.own[r][j];
      double correction = 0;
      if (config_.rule == Rule::kDelta) correction = drift;
      if (config_.rule == Rule::kEma) {
        e_[r][i] = full ? drift : momentum * e_[r][i] + (1 - momentum) * drift;
        correction = e_[r][i];
      }
      w_[r][i] = entry.mean[j] + config_.scale * correction;
    }
  }
  for (const uint64_t i : entry.subset) visited_[i] = 1;
  any_ = any_ || !entry.subset.empty();
}

void Reference::call(double progress, const std::vector<double>& weights_of_round) {
  start(weights_of_round);
  ++calls_;
  if (queue_.size() <= config_.window) return;
  const double momentum = momentum_at(
      {.first = config_.momentum_first, .last = config_.momentum_last, .warm_up = config_.warm_up},
      progress);
  apply(queue_.front(), momentum);
  queue_.pop_front();
}

}  // namespace asyncmesh::test
