// asyncmesh_optimiser_t: Nadamw on two regions. One caller at a time.
#pragma once

#include <memory>
#include <span>

#include "core/region.h"
#include "pipeline/nadamw.h"

namespace asyncmesh::core {

class OptimiserObject {
 public:
  static Result<std::unique_ptr<OptimiserObject>> create(std::shared_ptr<Region> weights,
                                                         std::shared_ptr<Region> gradients,
                                                         const NadamwConfig& config);

  Context& context() const { return weights_->context(); }
  Status step(NadamwStep step, const Region* mirror, double* norm_out);
  uint64_t state_bytes() const { return nadamw_->state_bytes(); }
  Status save(std::span<std::byte> buffer) const { return nadamw_->save(buffer); }
  Status load(std::span<const std::byte> bytes) { return nadamw_->load(bytes); }

 private:
  OptimiserObject(std::shared_ptr<Region> weights, std::shared_ptr<Region> gradients)
      : weights_(std::move(weights)), gradients_(std::move(gradients)) {}
  Status follow();  // tensors that moved

  std::shared_ptr<Region> weights_;
  std::shared_ptr<Region> gradients_;
  std::unique_ptr<Nadamw> nadamw_;
  uint64_t weights_generation_ = 0;
  uint64_t gradients_generation_ = 0;
};

}  // namespace asyncmesh::core
