// The momentum of the EMA over the training: constant, then a cosine from m_first to m_last.
//
//   m = m_first                                              progress below warm_up, else
//   m = m_first + (m_last - m_first) (1 - cos(pi u)) / 2
//   u = (progress - warm_up) / (1 - warm_up)
//
// The paper's EMA coefficient is 1 - m. Progress, not a call count, drives it, because replicas of
// unequal speed make unequal numbers of calls. With k calls of T, warm-up W calls, pass k / (T - 1)
// and W / (T - 1): `momentum_of_call` does.
#pragma once

#include <cstdint>

namespace asyncmesh {

struct MomentumSchedule {
  double first = 0.5;
  double last = 0.99;
  double warm_up = 1.0 / 30;  // share of the progress, 0..1
};

// `progress` is clamped to 0..1; not a number counts as 0.
double momentum_at(const MomentumSchedule& schedule, double progress) noexcept;

// Call k (from 0) of `total` with `warm_up` calls of constant momentum.
double momentum_of_call(double first, double last, uint64_t call, uint64_t warm_up,
                        uint64_t total) noexcept;

}  // namespace asyncmesh
