#include "averaging/stability.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace asyncmesh {
namespace {

constexpr double kRounding = 1e-9;  // a gain this close to the limit is at the limit

// The condition on the mean square, for a gain below the limit of the mean.
bool random_stable(double fraction, double delay, double gain) {
  const double half = std::asin(std::min(1.0, gain * fraction / 2.0));
  const double psi = half * (2.0 * delay + 1.0);
  return (1.0 - fraction) * gain * (1.0 + std::sin(psi)) < 2.0 * std::cos(half) * std::cos(psi);
}

// The largest window that is stable, 0 if none is.
uint64_t largest_window(AveragerConfig config, uint32_t parts, double gain) {
  uint32_t low = 0;
  uint32_t high = config.window;
  while (high - low > 1) {
    config.window = low + (high - low) / 2;
    const double limit = stability_limit(config, parts, worst_delay(config));
    (gain < limit - kRounding ? low : high) = config.window;
  }
  return low;
}

}  // namespace

uint64_t worst_delay(const AveragerConfig& config) noexcept {
  if (config.mode == AveragingMode::kDeterministic) return config.window;
  return config.window == 0 ? 0 : config.window - 1;
}

uint64_t writes_between(const AveragerConfig& config, uint32_t parts, uint64_t delay) noexcept {
  if (config.selection == Selection::kRotation) return delay / parts;
  return static_cast<uint64_t>(std::ceil(static_cast<double>(delay) * config.fraction - 1e-6));
}

uint64_t worst_q(const AveragerConfig& config, uint32_t parts) noexcept {
  return writes_between(config, parts, worst_delay(config));
}

double rotation_limit(uint64_t q) noexcept {
  return 2.0 * std::sin(std::numbers::pi / (2.0 * (2.0 * static_cast<double>(q) + 1.0)));
}

double random_limit(double fraction, uint64_t delay) noexcept {
  double low = 0.0;
  double high = std::min(2.0, rotation_limit(delay) / fraction);
  for (int halving = 0; halving < 53; ++halving) {
    const double middle = low + (high - low) / 2.0;
    (random_stable(fraction, static_cast<double>(delay), middle) ? low : high) = middle;
  }
  return high;
}

double stability_limit(const AveragerConfig& config, uint32_t parts, uint64_t delay) noexcept {
  if (config.selection == Selection::kRandom) return random_limit(config.fraction, delay);
  return rotation_limit(delay / parts);
}

double loop_gain(kernels::Rule rule, double momentum, double scale) noexcept {
  switch (rule) {
    case kernels::Rule::kAverage:
      return 0.0;
    case kernels::Rule::kDelta:
      return scale;
    case kernels::Rule::kEma:
      break;
  }
  return (1.0 - momentum) * scale;
}

double stability_margin(double gain, double limit) noexcept { return (limit - gain) / limit; }

double guarded_momentum(double limit) noexcept { return std::max(0.0, 1.0 - limit / 2.0); }

Status check_stability(const AveragerConfig& config, uint32_t parts) {
  if (config.rule == kernels::Rule::kAverage) return {};
  const bool deterministic = config.mode == AveragingMode::kDeterministic;
  const uint64_t q = worst_q(config, parts);
  if (config.scale > 1.0 && q > 0) {
    return {Code::kInvalidArgument,
            fmt::format("scale {} above 1 needs a window of at most {} (q = 0)", config.scale,
                        deterministic ? parts - 1 : parts)};
  }
  const double limit = stability_limit(config, parts, worst_delay(config));
  const double gain =
      loop_gain(config.rule, std::min(config.momentum_first, config.momentum_last), config.scale);
  const bool marginal = std::abs(gain - limit) <= kRounding;
  if (marginal ? deterministic : gain < limit) return {};

  const std::string subsets = config.selection == Selection::kRandom
                                  ? fmt::format("random subsets of {}", config.fraction)
                                  : fmt::format("{} parts", parts);
  const std::string momentum =
      config.rule == kernels::Rule::kEma
          ? fmt::format(" or momentum_first >= {:.3f}", guarded_momentum(limit))
          : std::string();
  return {Code::kInvalidArgument,
          fmt::format("unstable: window {} with {} puts q = {} writes between sampling and "
                      "applying; the gain {:.3f} must stay below {:.4f}. Use a window of at most "
                      "{}{}, or a smaller fraction",
                      config.window, subsets, q, gain, limit, largest_window(config, parts, gain),
                      momentum)};
}

}  // namespace asyncmesh
