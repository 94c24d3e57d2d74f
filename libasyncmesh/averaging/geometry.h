// The sizes of the two mailboxes that an averager needs: one for rounds, one for blocking means, so
// that a mean never stands behind rounds.
#pragma once

#include <cstdint>
#include <span>

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

// Rounds: (window + 2) x pieces slots, the rounds that a member may have open and the one that it
// starts while its own are being released. InvalidArgument for a table or config that
// Partition::create refuses, TooLarge for more slots than a lane can number.
Result<AveragerGeometry> averager_geometry(const AveragerConfig& config,
                                           std::span<const kernels::TensorView> tensors);

// Frames that `count` values take with `payload_bytes` each.
uint32_t pieces_of(uint64_t count, kernels::Encoding encoding, uint32_t payload_bytes) noexcept;
// Values in a full frame.
uint64_t values_per_piece(kernels::Encoding encoding, uint32_t payload_bytes) noexcept;

}  // namespace asyncmesh
