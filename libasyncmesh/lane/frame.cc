#include "lane/frame.h"

#include <bit>
#include <cstring>

#include "base/crc32c.h"

namespace asyncmesh {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they lie");
static_assert(offsetof(FrameHeader, crc) == 4 && offsetof(FrameHeader, kind) == 8 &&
              offsetof(FrameHeader, flags) == 9 && offsetof(FrameHeader, magic) == 10 &&
              offsetof(FrameHeader, reserved) == 12 && offsetof(FrameHeader, meta) == 16);

}  // namespace

void seal_frame(std::byte* frame, uint32_t payload_bytes, uint8_t kind,
                bool checksum_payload) noexcept {
  FrameHeader header;
  std::memcpy(&header, frame, sizeof header);
  header.bytes = payload_bytes;
  header.crc = 0;
  header.kind = kind;
  header.flags = checksum_payload ? kChecksummed : 0;
  header.magic = kFrameMagic;
  header.reserved = 0;
  uint32_t crc = crc32c(0, &header, sizeof header);
  if (checksum_payload) crc = crc32c(crc, frame + kFrameHeaderBytes, payload_bytes);
  header.crc = crc;
  std::memcpy(frame, &header, offsetof(FrameHeader, meta));
}

Code open_frame(const std::byte* slot, uint32_t slot_bytes, FrameHeader* header_out) noexcept {
  if (slot_bytes < kFrameHeaderBytes) return Code::kLinkError;
  // The slot is memory that a peer writes: only this copy is looked at and handed on.
  FrameHeader header;
  std::memcpy(&header, slot, sizeof header);
  if (header.magic != kFrameMagic || header.reserved != 0) return Code::kLinkError;
  if ((header.flags & ~uint32_t{kChecksummed}) != 0) return Code::kLinkError;
  if (header.bytes > slot_bytes - kFrameHeaderBytes) return Code::kLinkError;
  const uint32_t claimed = header.crc;
  header.crc = 0;
  uint32_t crc = crc32c(0, &header, sizeof header);
  if ((header.flags & kChecksummed) != 0) {
    crc = crc32c(crc, slot + kFrameHeaderBytes, header.bytes);
  }
  if (crc != claimed) return Code::kLinkError;
  header.crc = claimed;
  *header_out = header;
  return Code::kOk;
}

}  // namespace asyncmesh
