#include "averaging/schedule.h"

#include <cmath>
#include <numbers>

namespace asyncmesh {

double momentum_at(const MomentumSchedule& schedule, double progress) noexcept {
  if (!(progress >= schedule.warm_up)) return schedule.first;
  const double left = 1.0 - schedule.warm_up;
  const double u = left > 0.0 ? std::fmin((progress - schedule.warm_up) / left, 1.0) : 1.0;
  return schedule.first +
         (schedule.last - schedule.first) * (1.0 - (1.0 + std::cos(std::numbers::pi * u)) / 2.0);
}

double momentum_of_call(double first, double last, uint64_t call, uint64_t warm_up,
                        uint64_t total) noexcept {
  if (call < warm_up) return first;
  if (total <= warm_up + 1) return call > warm_up ? last : first;
  const auto end = static_cast<double>(total - 1);
  return momentum_at({.first = first, .last = last, .warm_up = static_cast<double>(warm_up) / end},
                     static_cast<double>(call) / end);
}

}  // namespace asyncmesh
