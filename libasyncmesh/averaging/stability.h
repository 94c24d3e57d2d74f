// When does averaging late results stay stable? The guard that is checked at creation and kept.
//
// q = writes to one coordinate that fall between sampling it and applying that sample. A deviation
// between replicas obeys, per write, y <- y - g y_q with gain g = 1 - m (EMA; lambda scales it) or
// g = 1 (delta), y_q its value q writes ago: a delayed feedback loop, stable iff
//
//   g < limit(q) = 2 sin(pi / (2 (2 q + 1)))        q = 0, 1, 2, 3: 2, 1, 0.618, 0.445
//
// `average` has no feedback and is always stable. The rotation visits a coordinate every N rounds.
// Deterministic mode: tau rounds are applied between, so q = floor(tau / N). Opportunistic mode: a
// round starts with at most W - 1 others open, so q <= floor((W - 1) / N). (With redrawn
// permutations two visits can come closer than N rounds at the border of two cycles; such runs were
// seen to contract all the same.)
//
// At creation an unstable setting is refused. At the limit exactly (delta with q = 1) deviations
// neither shrink nor grow: accepted in deterministic mode, where the delay was chosen to the call,
// and refused in opportunistic mode. At run time, in opportunistic mode, the momentum is kept at or
// above 1 - limit(q) / 2, half way to the limit, for the largest q seen; a deterministic run keeps
// the schedule to the letter.
#pragma once

#include <cstdint>

#include "averaging/config.h"
#include "base/status.h"

namespace asyncmesh {

uint64_t worst_q(const AveragerConfig& config, uint32_t parts) noexcept;
double stability_limit(uint64_t q) noexcept;
double loop_gain(kernels::Rule rule, double momentum, double scale) noexcept;
// (limit - gain) / limit: 1 far from unstable, 0 at the limit, below 0 unstable.
double stability_margin(kernels::Rule rule, double momentum, double scale, uint64_t q) noexcept;
// The momentum half way to the limit; 0 for q = 0 (nothing to guard).
double guarded_momentum(uint64_t q) noexcept;

// InvalidArgument with q, the limit and the remedy in the text.
Status check_stability(const AveragerConfig& config, uint32_t parts);

}  // namespace asyncmesh
