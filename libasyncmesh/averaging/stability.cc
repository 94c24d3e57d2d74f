#include "averaging/stability.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace asyncmesh {
namespace {

constexpr double kRounding = 1e-9;  // a gain this close to the limit is at the limit

}  // namespace

uint64_t worst_q(const AveragerConfig& config, uint32_t parts) noexcept {
  if (config.mode == AveragingMode::kDeterministic) return config.window / parts;
  return config.window == 0 ? 0 : (config.window - 1) / parts;
}

double stability_limit(uint64_t q) noexcept {
  return 2.0 * std::sin(std::numbers::pi / (2.0 * (2.0 * static_cast<double>(q) + 1.0)));
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

double stability_margin(kernels::Rule rule, double momentum, double scale, uint64_t q) noexcept {
  const double limit = stability_limit(q);
  return (limit - loop_gain(rule, momentum, scale)) / limit;
}

double guarded_momentum(uint64_t q) noexcept {
  return q == 0 ? 0.0 : 1.0 - stability_limit(q) / 2.0;
}

Status check_stability(const AveragerConfig& config, uint32_t parts) {
  const uint64_t q = worst_q(config, parts);
  const double limit = stability_limit(q);
  const double gain =
      loop_gain(config.rule, std::min(config.momentum_first, config.momentum_last), config.scale);
  const bool marginal = std::abs(gain - limit) <= kRounding;
  const bool refused =
      gain > limit + kRounding || (marginal && config.mode == AveragingMode::kOpportunistic);
  if (config.scale > 1.0 && q > 0 && config.rule != kernels::Rule::kAverage) {
    return Status(Code::kInvalidArgument,
                  fmt::format("scale {} above 1 needs a window below the {} parts (q = 0)",
                              config.scale, parts));
  }
  if (!refused) return {};
  const uint64_t safe = config.mode == AveragingMode::kDeterministic ? parts - 1 : parts;
  const std::string momentum =
      config.rule == kernels::Rule::kEma
          ? fmt::format(" or momentum_first >= {:.3f}", guarded_momentum(q))
          : std::string();
  return Status(
      Code::kInvalidArgument,
      fmt::format("unstable: window {} over {} parts puts q = {} writes between sampling and "
                  "applying; the gain {:.3f} must stay below {:.4f}. Use a window of at most {}{}, "
                  "or a smaller fraction",
                  config.window, parts, q, gain, limit, safe, momentum));
}

}  // namespace asyncmesh
