// Bytes of a frame, as they lie in a staging buffer, on the wire and in a slot (little endian):
//
//   0       4     8      9       10      12         16              56
//   | bytes | crc | kind | flags | magic | reserved | meta (40 B)   | payload, `bytes` bytes ...
//
// `meta` is opaque here; mailbox and channel define it. Nothing in a frame differs per lane
// (sequence and epoch travel in the commit word or the tag), so one staged frame serves all lanes
// of a broadcast. The CRC32C covers the header (with crc = 0) and, when kChecksummed is set, the
// payload too. Pure functions: any thread, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "transport/transport.h"

namespace asyncmesh {

inline constexpr uint16_t kFrameMagic = 0xA53E;
inline constexpr size_t kMetaBytes = 40;

enum FrameFlag : uint8_t { kChecksummed = 1 };

struct FrameHeader {
  uint32_t bytes;  // of payload
  uint32_t crc;
  uint8_t kind;  // of the layer above: DeltaKind of mailbox or ChannelKind of channel
  uint8_t flags;
  uint16_t magic;
  uint32_t reserved;  // zero
  std::byte meta[kMetaBytes];
};
static_assert(sizeof(FrameHeader) == 56);

inline constexpr size_t kFrameHeaderBytes = sizeof(FrameHeader);

// The slot size that takes a payload of `payload_bytes`. The header is the rest of a cache line.
constexpr uint32_t slot_bytes_for(uint32_t payload_bytes) {
  return ((payload_bytes + 63U) & ~63U) + static_cast<uint32_t>(kFrameHeaderBytes);
}
static_assert(transport::kFrameLead + kFrameHeaderBytes == 64);

// Fills bytes, kind, flags, magic, reserved and crc of the frame at `frame`; meta and payload are
// in place already.
void seal_frame(std::byte* frame, uint32_t payload_bytes, uint8_t kind,
                bool checksum_payload) noexcept;

// Copies the header out of `slot` and validates the copy against the slot (of which `slot_bytes`
// may be read) and, where flagged, the payload. kOk, or kLinkError for anything that no writer of
// ours would have sent; *header_out is meaningful only with kOk.
Code open_frame(const std::byte* slot, uint32_t slot_bytes, FrameHeader* header_out) noexcept;

}  // namespace asyncmesh
