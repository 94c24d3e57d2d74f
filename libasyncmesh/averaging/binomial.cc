#include "averaging/binomial.h"

#include <algorithm>
#include <cmath>

namespace asyncmesh {

template <typename Visit>
void Binomial::outwards(Visit visit) const noexcept {
  if (visit(mode_, 1.0)) return;
  uint64_t up = mode_;
  uint64_t down = mode_;
  double up_weight = 1.0;
  double down_weight = 1.0;
  for (uint64_t distance = 0; distance < radius_; ++distance) {
    if (up < trials_) {
      up_weight *= odds_ * static_cast<double>(trials_ - up) / static_cast<double>(up + 1);
      if (visit(++up, up_weight)) return;
    }
    if (down > 0) {
      down_weight *= static_cast<double>(down) / (odds_ * static_cast<double>(trials_ - down + 1));
      if (visit(--down, down_weight)) return;
    }
  }
}

Binomial::Binomial(uint64_t trials, double probability) noexcept : trials_(trials), mode_(trials) {
  if (probability >= 1.0) return;
  const auto count = static_cast<double>(trials);
  mode_ = std::min(trials, static_cast<uint64_t>((count + 1.0) * probability));
  radius_ = static_cast<uint64_t>(8.0 * std::sqrt(count * probability * (1.0 - probability))) + 16;
  odds_ = probability / (1.0 - probability);
  total_ = 0.0;
  outwards([this](uint64_t, double weight) {
    total_ += weight;
    return false;
  });
}

uint64_t Binomial::draw(uint64_t uniform) const noexcept {
  constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
  double target = static_cast<double>(uniform >> 11) * kUnit * total_;
  uint64_t drawn = mode_;  // stays where rounding leaves a crumb of the target behind the last one
  outwards([&](uint64_t size, double weight) {
    target -= weight;
    if (target >= 0.0) return false;
    drawn = size;
    return true;
  });
  return drawn;
}

}  // namespace asyncmesh
