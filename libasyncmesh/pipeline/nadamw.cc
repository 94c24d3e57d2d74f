#include "pipeline/nadamw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace asyncmesh {
namespace {

using kernels::ParameterTable;
using kernels::TensorView;

Status invalid(std::string text) { return {Code::kInvalidArgument, std::move(text)}; }

Status check_tables(const ParameterTable& weights, const ParameterTable& gradients) {
  if (!kernels::storable(weights.storage)) {
    return invalid("no table is stored in a scaled encoding");
  }
  if (weights.storage != gradients.storage) {
    return invalid("weights and gradients are stored in different formats");
  }
  if (weights.size != gradients.size) {
    return invalid(fmt::format("{} weight tensors, {} gradients", weights.size, gradients.size));
  }
  for (uint32_t i = 0; i < weights.size; ++i) {
    const TensorView& weight = weights.tensors[i];
    const TensorView& gradient = gradients.tensors[i];
    if (weight.count != gradient.count) {
      return invalid(fmt::format("tensor {} has {} weights and {} gradients", i, weight.count,
                                 gradient.count));
    }
    if (weight.count == 0) continue;
    if (weight.data == nullptr || gradient.data == nullptr) {
      return invalid(fmt::format("tensor {} is null", i));
    }
  }
  return {};
}

bool fraction(double value) { return value >= 0.0 && value < 1.0; }

Status check_config(const NadamwConfig& config, size_t tensors) {
  if (!fraction(config.beta1) || !fraction(config.beta2)) {
    return invalid("beta1 and beta2 must be in [0, 1)");
  }
  if (!(config.epsilon > 0.0) || !std::isfinite(config.epsilon)) {
    return invalid("epsilon must be above 0");
  }
  if (!(config.psi >= 0.0) || !std::isfinite(config.psi)) {
    return invalid("psi must not be negative");
  }
  if (!std::isfinite(config.weight_decay)) return invalid("weight_decay is not finite");
  for (const std::vector<double>* list : {&config.decay, &config.lr_scale}) {
    if (!list->empty() && list->size() != tensors) {
      return invalid(fmt::format("a list of {} values for {} tensors", list->size(), tensors));
    }
    if (!std::all_of(list->begin(), list->end(), [](double x) { return std::isfinite(x); })) {
      return invalid("a decay or lr_scale is not finite");
    }
  }
  return {};
}

uint64_t elements_of(const ParameterTable& table) {
  uint64_t elements = 0;
  for (uint32_t i = 0; i < table.size; ++i) elements += table.tensors[i].count;
  return elements;
}

double look_ahead_at(const NadamwConfig& config, uint64_t step) {
  return config.beta1 * (1.0 - 0.5 * std::pow(0.96, static_cast<double>(step) * config.psi));
}

}  // namespace

LookAhead look_ahead_for_steps(uint64_t steps) noexcept {
  constexpr double kLong = 30000.0;
  constexpr double kShort = 1500.0;
  constexpr LookAhead kOfLong{.beta1 = 0.99, .psi = 0.004};
  constexpr LookAhead kOfShort{.beta1 = 0.9, .psi = 0.04};
  if (steps == 0) return kOfLong;
  const double length = std::clamp(static_cast<double>(steps), kShort, kLong);
  // 0 at the long end, 1 at the short one. Both 1 - beta1 and psi grow by ten in between.
  const double position = std::log(kLong / length) / std::log(kLong / kShort);
  const double growth = std::pow(kOfShort.psi / kOfLong.psi, position);
  return {.beta1 = 1.0 - (1.0 - kOfLong.beta1) * growth, .psi = kOfLong.psi * growth};
}

Result<std::unique_ptr<Nadamw>> Nadamw::create(const NadamwConfig& config,
                                               const ParameterTable& weights,
                                               const ParameterTable& gradients,
                                               const kernels::Table& kernels,
                                               const kernels::Execution& on) {
  if (Status status = check_tables(weights, gradients); !status.ok()) return status;
  if (Status status = check_config(config, weights.size); !status.ok()) return status;
  return std::unique_ptr<Nadamw>(new Nadamw(config, weights, gradients, kernels, on));
}

Nadamw::Nadamw(const NadamwConfig& config, const ParameterTable& weights,
               const ParameterTable& gradients, const kernels::Table& kernels,
               const kernels::Execution& on)
    : config_(config),
      weights_(weights.tensors, weights.tensors + weights.size),
      gradients_(gradients.tensors, gradients.tensors + gradients.size),
      storage_(weights.storage),
      kernels_(kernels),
      on_(on),
      m_(elements_of(weights), 0.0F),
      v_(elements_of(weights), 0.0F) {}

double Nadamw::gradient_norm() const {
  double sum = 0.0;
  double sums[kernels::kSumSlots];
  if (!kernels::lossless(storage_)) {
    const ParameterTable table{gradients_.data(), static_cast<uint32_t>(gradients_.size()),
                               storage_};
    kernels_.compare(table, table, sums, on_);
    return std::sqrt(sums[2]);  // Comparison::first
  }
  for (const TensorView& gradient : gradients_) {
    if (gradient.count == 0) continue;
    kernels_.sum_of_squares(gradient.floats(), gradient.count, sums, on_);
    sum += sums[0];
  }
  return std::sqrt(sum);
}

Status Nadamw::step(const NadamwStep& step, double* norm_out) {
  if (step.skip) {
    refresh(step.mirror);
    return {};
  }
  if (!std::isfinite(step.lr) || !std::isfinite(step.gradient_scale) ||
      !std::isfinite(step.clip_norm)) {
    return invalid("lr, gradient_scale or clip_norm is not finite");
  }
  double scale = step.gradient_scale;
  if (step.clip_norm > 0.0 || step.want_norm) {
    const double norm = gradient_norm() * std::abs(step.gradient_scale);
    if (!std::isfinite(norm)) return invalid("the gradient is not finite");
    if (step.clip_norm > 0.0 && norm > step.clip_norm) scale *= step.clip_norm / norm;
    if (norm_out != nullptr) *norm_out = norm;
  }
  const kernels::NadamwArgs base = factors(step, scale);
  uint64_t offset = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i].count == 0) continue;
    const double lr_scale = config_.lr_scale.empty() ? 1.0 : config_.lr_scale[i];
    kernels::NadamwArgs args = base;
    args.weight_decay = config_.decay.empty() ? config_.weight_decay : config_.decay[i];
    args.lr *= lr_scale;
    args.gradient_factor *= lr_scale;
    args.momentum_factor *= lr_scale;
    kernels::NadamwArrays arrays{.w = weights_[i].data,
                                 .gradient = gradients_[i].data,
                                 .storage = storage_,
                                 .m = m_.data() + offset,
                                 .v = v_.data() + offset};
    if (step.mirror != nullptr) {
      arrays.mirror = step.mirror->tensors[i].data;
      arrays.mirror_storage = step.mirror->storage;
    }
    kernels_.nadamw(arrays, weights_[i].count, args, on_);
    offset += weights_[i].count;
  }
  return {};
}

// Advances t and the product.
kernels::NadamwArgs Nadamw::factors(const NadamwStep& step, double scale) {
  ++steps_;
  const auto t = static_cast<double>(steps_);
  kernels::NadamwArgs args{.lr = step.lr,
                           .beta1 = config_.beta1,
                           .beta2 = config_.beta2,
                           .epsilon = config_.epsilon,
                           .gradient_scale = scale,
                           .variance_factor = 1.0 / (1.0 - std::pow(config_.beta2, t))};
  if (!config_.look_ahead) {
    args.gradient_factor = 0.0;
    args.momentum_factor = step.lr / (1.0 - std::pow(config_.beta1, t));
    return args;
  }
  const double now = look_ahead_at(config_, steps_);
  const double following = look_ahead_at(config_, steps_ + 1);
  product_ *= now;
  args.gradient_factor = step.lr * (1.0 - now) / (1.0 - product_);
  args.momentum_factor = step.lr * following / (1.0 - product_ * following);
  return args;
}

void Nadamw::refresh(const kernels::ParameterTable* mirror) const {
  if (mirror == nullptr) return;
  constexpr uint32_t kBlock = 4096;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i].count == 0) continue;
    // All blocks, in their order: weights as they are stored, into a table of another storage.
    const TensorView copy{.data = mirror->tensors[i].data, .count = weights_[i].count};
    const kernels::Subset all{.blocks = (copy.count + kBlock - 1) / kBlock, .granularity = kBlock};
    kernels_.partition_unpack({.tensors = &copy, .size = 1, .storage = mirror->storage}, all,
                              storage_, static_cast<const std::byte*>(weights_[i].data), on_);
  }
}

Status Nadamw::rebind(const ParameterTable& weights, const ParameterTable& gradients) {
  ASYNCMESH_RETURN_IF_ERROR(check_tables(weights, gradients));
  if (weights.storage != storage_) {
    return invalid("the tensors are stored otherwise than at creation");
  }
  const auto same_count = [](const TensorView& a, const TensorView& b) {
    return a.count == b.count;
  };
  if (!std::equal(weights.tensors, weights.tensors + weights.size, weights_.begin(), weights_.end(),
                  same_count)) {
    return invalid("the tensors have other counts than at creation");
  }
  std::copy_n(weights.tensors, weights.size, weights_.begin());
  std::copy_n(gradients.tensors, gradients.size, gradients_.begin());
  return {};
}

}  // namespace asyncmesh
