// The memory of an inbound lane of the rma engine, which its writer writes.
//
//   0            128        136                   136 + slot_bytes
//   | credit     | commit 0 | slot 0 (slot_bytes) | commit 1 | slot 1 | ...
//
// Credit: see rma_credit.h; one line for each side, so that neither takes the other's away.
// Commit word of a frame: epoch << 48 | sequence, eight bytes, written after the frame and compared
// for equality. It shares its line with the frame's header; the payload starts the next line.
// Words are never cleared: what an earlier lap left there is another sequence. The arena belongs to
// one link epoch and is never handed on: closing an endpoint does not stop a writer that maps the
// memory, so late stores of a peer thought dead are harmless only because nobody reads them. UCX
// allocates it (System V or POSIX shared memory, marked for removal from the start, so that a
// killed process leaves nothing behind), for only UCX's own memory can be written without the
// target's help.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/rma/rma_credit.h"
#include "transport/ucx/ucx_handles.h"
#include "transport/ucx/ucx_offer.h"

namespace asyncmesh::transport {

inline constexpr size_t kLine = 64;
inline constexpr size_t kCreditBytes = sizeof(RmaCreditBlock);

inline uint64_t commit_word(Epoch epoch, Sequence sequence) {
  return (uint64_t{epoch} << 48) | (sequence & kSequenceMask);
}

// Offsets within an arena; both ends compute them.
class RmaLayout {
 public:
  explicit RmaLayout(const LaneGeometry& geometry)
      : slots_(geometry.slots), stride_(geometry.stride()) {}
  static RmaCreditBlock* credit(std::byte* arena) {
    return reinterpret_cast<RmaCreditBlock*>(arena);
  }
  size_t commit(Sequence sequence) const {
    return kCreditBytes + (sequence & (slots_ - 1)) * stride_;
  }
  size_t slot(Sequence sequence) const { return commit(sequence) + kFrameLead; }
  size_t bytes() const { return kCreditBytes + slots_ * stride_; }

 private:
  size_t slots_;
  size_t stride_;
};

// Allocates an arena, zeroed and faulted in.
Result<UcpMemory> allocate_arena(ucp_context_h context, const RmaLayout& layout);
// `offer` with the arena's address, segment and remote key, and the reader's worker address.
Result<Bytes> make_rma_offer(ucp_context_h context, const UcpMemory& arena, UcxOffer offer,
                             std::span<const std::byte> worker);

}  // namespace asyncmesh::transport
