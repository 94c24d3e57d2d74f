// When does averaging late results stay stable? The guard that is checked at creation and kept.
//
// The delay of a round: rounds applied between sampling and applying it. Deterministic mode: tau.
// Opportunistic mode: a round starts with at most W - 1 others open, so W - 1 at the worst.
//
// A deviation between replicas obeys, per write of a coordinate, y <- y - g y', where y' is what it
// was when sampled, with gain g = 1 - m (EMA; lambda scales it) or g = 1 (delta): a delayed
// feedback loop. `average` has no feedback and is always stable.
//
// Rotation visits a coordinate every N rounds, so q = floor(delay / N) writes fall in between and
// the loop is stable iff
//
//   g < 2 sin(pi / (2 (2 q + 1)))        q = 0, 1, 2, 3: 2, 1, 0.618, 0.445
//
// (With redrawn permutations two visits can come closer than N rounds at the border of two cycles;
// such runs were seen to contract all the same.)
//
// Random visits it with probability p in each round: y <- y - g b y', b = 1 or 0. Any number of
// writes up to the delay may fall in between (`q` is their mean, rounded up: for reports), so it is
// the mean square of y that must shrink. It does iff A = g p < 2 sin(pi / (2 (2 delay + 1))) and
// the noise that the coin adds, of variance g^2 p (1 - p) times that of y', is less than what the
// mean loop z <- z - A z' damps: g^2 p (1 - p) S < 1 with S the sum of squares of its impulse
// response. In closed form, with A = 2 sin(omega / 2) and psi = omega (delay + 1/2),
//
//   S = (1 + sin psi) / (2 A cos(omega / 2) cos psi)
//   (1 - p) g (1 + sin psi) < 2 cos(omega / 2) cos psi
//
// which is 2 for delay 0, and the limit of rotation with N = 1 for p = 1. The default setting
// (p = 0.05, W = 10) has limit 1.17.
//
// At creation an unstable setting is refused. At the limit exactly (delta with q = 1) deviations
// neither shrink nor grow: accepted in deterministic mode, where the delay was chosen to the call,
// and refused in opportunistic mode. At run time, in opportunistic mode, the momentum is kept at or
// above 1 - limit / 2, half way to the limit, for the largest delay seen; a deterministic run keeps
// the schedule to the letter.
#pragma once

#include <cstdint>

#include "averaging/config.h"
#include "base/status.h"

namespace asyncmesh {

uint64_t worst_delay(const AveragerConfig& config) noexcept;
// q of a delay, and of the worst one.
uint64_t writes_between(const AveragerConfig& config, uint32_t parts, uint64_t delay) noexcept;
uint64_t worst_q(const AveragerConfig& config, uint32_t parts) noexcept;

// Of the gain: rotation with q writes in between; random with probability `fraction`; either.
double rotation_limit(uint64_t q) noexcept;
double random_limit(double fraction, uint64_t delay) noexcept;
double stability_limit(const AveragerConfig& config, uint32_t parts, uint64_t delay) noexcept;

double loop_gain(kernels::Rule rule, double momentum, double scale) noexcept;
// (limit - gain) / limit: 1 far from unstable, 0 at the limit, below 0 unstable.
double stability_margin(double gain, double limit) noexcept;
// The momentum half way to the limit; 0 for the largest limit, 2 (nothing to guard).
double guarded_momentum(double limit) noexcept;

// InvalidArgument with q, the limit and the remedy in the text.
Status check_stability(const AveragerConfig& config, uint32_t parts);

}  // namespace asyncmesh
