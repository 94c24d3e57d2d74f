// The random bits of stochastic rounding, per round and member.
//
// Members must not share them: errors that agree do not average out. They are not needed to decode,
// so nobody else derives them; but a run that is repeated draws the same ones.
#pragma once

#include <cstdint>

#include "averaging/config.h"
#include "base/random.h"

namespace asyncmesh {

// Seed of what member `rank` sends in round `round`. The permutations of subsets are keyed by
// mix(mix(seed, group), cycle); the constant takes the place of a cycle that no training reaches.
// Value i of the subset, in subset order, then has the bits kernels::random_bits(seed, i).
constexpr uint64_t rounding_seed(const AveragerConfig& config, uint64_t round,
                                 uint32_t rank) noexcept {
  constexpr uint64_t kRounding = 0xFFFFFFFF524E4421ULL;
  return mix(mix(mix(mix(config.seed, config.group_key), kRounding), round), rank);
}

}  // namespace asyncmesh
