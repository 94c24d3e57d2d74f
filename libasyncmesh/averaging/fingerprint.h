// What members of an averaging group must agree on, in 64 bits. Compared when their mailboxes meet:
// a mismatch is refused there, since subsets are derived and never sent.
//
// Not in it: what each member may choose for itself (its momentum schedule, scale, init).
#pragma once

#include <cstdint>
#include <span>

#include "averaging/config.h"

namespace asyncmesh {

struct TensorIdentity {
  uint64_t id = 0;      // of the caller
  uint64_t count = 0;   // elements
  uint32_t dtype = 0;   // of the caller's numbering
  uint64_t layout = 0;  // of the caller: shape and strides, hashed
};

// Of the table alone; depends on the order of the tensors.
uint64_t table_fingerprint(std::span<const TensorIdentity> tensors) noexcept;
// Of the table, the number of members and the settings that must agree: selection, fraction,
// granularity, rule, mode, window, redraw, seed, group key, encoding, rounding.
uint64_t group_fingerprint(std::span<const TensorIdentity> tensors, uint32_t members,
                           const AveragerConfig& config) noexcept;

}  // namespace asyncmesh
