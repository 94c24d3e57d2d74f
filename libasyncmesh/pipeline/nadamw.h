// NAdamW: Adam with Nesterov look-ahead and decoupled weight decay over a parameter table, the step
// that makes delayed gradients usable; and plain AdamW, for comparisons.
//
// Step t = 1, 2, ... with the gradient g after scaling and clipping, all in the order written:
//
//   w    <- w (1 - lr decay)
//   mu_t  = beta1 (1 - 0.5 * 0.96^(t psi)),  product_t = product_{t-1} mu_t
//   m    <- beta1 m + (1 - beta1) g          v <- beta2 v + (1 - beta2) g^2
//   D     = sqrt(v / (1 - beta2^t)) + epsilon
//   w    <- w - lr (1 - mu_t) / (1 - product_t) g / D
//             - lr mu_{t+1} / (1 - product_t mu_{t+1}) m / D
//
// AdamW: the last line is w <- w - lr / (1 - beta1^t) m / D. The scalars are computed in double.
// Clipping is by the norm of this table's own gradients (a stage's, not the model's), computed in a
// fixed order, so that it is bitwise repeatable.
//
// mu rises from beta1 / 2 to beta1, the rest halving every 17 / psi steps: settings belong to a
// length of training. See `look_ahead_for_steps`.
//
// Tables: fp32 master weights, or bf16 or fp16 ones without masters, and gradients stored likewise.
// Moments and arithmetic are fp32; the new weight is rounded to the table's storage, to nearest.
//
// Ownership: weights and gradients stay the caller's and alive; moments are owned here, in host
// memory. One caller at a time. `step` allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/large_vector.h"
#include "base/status.h"
#include "kernels/kernels.h"

namespace asyncmesh {

struct LookAhead {
  double beta1 = 0.99;
  double psi = 0.004;
};

// Settings that fit a training of `steps` updates: beta1 0.9 and psi 0.04 were found right for
// 1,500 steps, 0.99 and 0.004 for 30,000; between, a power law through both. 0 (not known): the
// latter.
LookAhead look_ahead_for_steps(uint64_t steps) noexcept;

struct NadamwConfig {
  bool look_ahead = true;  // false: AdamW
  double beta1 = 0.99;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double psi = 0.004;
  double weight_decay = 0.01;
  std::vector<double> decay = {};     // per tensor; empty: weight_decay for all
  std::vector<double> lr_scale = {};  // per tensor; empty: 1 for all
};

struct NadamwStep {
  double lr = 0.0;
  double gradient_scale = 1.0;  // before clipping: 1 / loss scale, 1 / micro-batches
  double clip_norm = 0.0;       // > 0: the scaled gradient's norm is brought down to it
  bool skip = false;            // nothing changes, not even t; a mirror is still refreshed
  bool want_norm = false;       // compute it without clipping too
  // The weights' shapes, a storage of its own: receives the new weights.
  const kernels::ParameterTable* mirror = nullptr;
};

class Nadamw {
 public:
  // `gradients` has the layout and the storage of `weights`. InvalidArgument: tables that differ or
  // are null, settings out of range, lists of another length than the table.
  static Result<std::unique_ptr<Nadamw>> create(const NadamwConfig& config,
                                                const kernels::ParameterTable& weights,
                                                const kernels::ParameterTable& gradients,
                                                const kernels::Table& kernels,
                                                const kernels::Execution& on = {});

  // `norm_out` (may be null) receives the scaled norm before clipping, where it was computed.
  // InvalidArgument, and nothing changed: lr or scale not finite; the norm, where computed, not
  // finite.
  Status step(const NadamwStep& step, double* norm_out);

  // Of all gradients as they are, unscaled; bitwise repeatable.
  double gradient_norm() const;

  uint64_t steps() const { return steps_; }
  const NadamwConfig& config() const { return config_; }
  // Tables that moved; counts and storage must be the same.
  Status rebind(const kernels::ParameterTable& weights, const kernels::ParameterTable& gradients);

  // t, product and moments, exactly. TooLarge: `buffer` is smaller than state_bytes(). Mismatch:
  // another table, or bytes that no optimiser wrote; nothing changed.
  uint64_t state_bytes() const;
  Status save(std::span<std::byte> buffer) const;
  Status load(std::span<const std::byte> bytes);

 private:
  Nadamw(const NadamwConfig& config, const kernels::ParameterTable& weights,
         const kernels::ParameterTable& gradients, const kernels::Table& kernels,
         const kernels::Execution& on);

  kernels::NadamwArgs factors(const NadamwStep& step, double scale);
  void refresh(const kernels::ParameterTable* mirror) const;

  NadamwConfig config_;
  std::vector<kernels::TensorView> weights_;
  std::vector<kernels::TensorView> gradients_;
  kernels::Encoding storage_;
  const kernels::Table& kernels_;
  const kernels::Execution on_;
  LargeVector<float> m_;  // over the table, in element order
  LargeVector<float> v_;
  uint64_t steps_ = 0;  // t
  double product_ = 1.0;
};

}  // namespace asyncmesh
