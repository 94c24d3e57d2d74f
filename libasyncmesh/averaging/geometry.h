// The sizes of the two mailboxes that an averager needs: one for rounds, one for blocking means, so
// that a mean never stands behind rounds.
#pragma once

#include <cstdint>

#include "averaging/config.h"
#include "base/status.h"

namespace asyncmesh {

inline constexpr uint32_t kMaxPieceBytes = 256 * 1024;  // no frame keeps the progress owner longer

struct MailboxGeometry {
  uint32_t payload_bytes = 0;  // per frame; a multiple of 64
  uint32_t slots = 0;          // per lane; a power of two
};

struct AveragerGeometry {
  MailboxGeometry rounds;
  MailboxGeometry means;
  uint32_t pieces = 0;  // frames per round, at most
};

// The frames of a round are equal in size but for the last one. Those of a scaled encoding begin at
// multiples of kernels::kGroup values: a piece must be a run of bytes. Slots: see round_slots.
// InvalidArgument for a table or config that Partition::create refuses, TooLarge for more slots
// than a lane can number.
Result<AveragerGeometry> averager_geometry(const AveragerConfig& config,
                                           const kernels::ParameterTable& table);

// Slots of a lane of rounds: 2 (W + 1) rounds, so that whatever the latency the window is what
// limits the rounds in flight, and not the credit, which comes back a round trip late. A member
// that starts round k has resolved round k - W - 1, so the others have posted that one; and when
// they did, they had resolved round k - 2 W - 2. Rounds k - 2 W - 1 to k may be unreleased.
uint64_t round_slots(const AveragerConfig& config, uint32_t pieces) noexcept;

// Frames that `count` values take with `payload_bytes` each.
uint32_t pieces_of(uint64_t count, kernels::Encoding encoding, uint32_t payload_bytes) noexcept;
// Values in a full frame. Scaled encodings: whole groups, or what fits into less than one, and then
// a round must not have more than one frame.
uint64_t values_per_piece(kernels::Encoding encoding, uint32_t payload_bytes) noexcept;

}  // namespace asyncmesh
