#include "lane/frame.h"

#include <bit>
#include <cstring>

#include "base/copy_words.h"
#include "base/crc32c.h"

namespace asyncmesh {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they lie");
static_assert(offsetof(FrameHeader, crc) == 4 && offsetof(FrameHeader, kind) == 8 &&
              offsetof(FrameHeader, flags) == 9 && offsetof(FrameHeader, magic) == 10 &&
              offsetof(FrameHeader, reserved) == 12 && offsetof(FrameHeader, meta) == 16);

// The header as the checksum reads it. Written and read as whole words, never as fields
// (copy_words.h).
struct HeaderWords {
  uint64_t word[kFrameHeaderBytes / 8];

  uint32_t low(size_t index) const { return static_cast<uint32_t>(word[index]); }
  uint32_t high(size_t index) const { return static_cast<uint32_t>(word[index] >> 32); }
};
static_assert(sizeof(HeaderWords) == kFrameHeaderBytes);

uint64_t join(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }

}  // namespace

void seal_frame(std::byte* frame, uint32_t payload_bytes, uint8_t kind,
                bool checksum_payload) noexcept {
  HeaderWords header;
  copy_words(&header, frame, sizeof header);
  const uint32_t flags = checksum_payload ? kChecksummed : 0;
  header.word[0] = payload_bytes;
  header.word[1] = kind | flags << 8 | uint32_t{kFrameMagic} << 16;
  uint32_t crc = crc32c(0, &header, sizeof header);
  if (checksum_payload) crc = crc32c(crc, frame + kFrameHeaderBytes, payload_bytes);
  header.word[0] = join(payload_bytes, crc);
  copy_words(frame, &header, offsetof(FrameHeader, meta));
}

Code open_frame(const std::byte* slot, uint32_t slot_bytes, FrameHeader* header_out) noexcept {
  if (slot_bytes < kFrameHeaderBytes) return Code::kLinkError;
  // The slot is memory that a peer writes: only this copy is looked at and handed on.
  HeaderWords header;
  copy_words(&header, slot, sizeof header);
  const uint32_t bytes = header.low(0);
  const uint32_t claimed = header.high(0);
  const uint32_t flags = (header.low(1) >> 8) & 0xFF;
  const uint32_t magic = header.low(1) >> 16;
  const uint32_t reserved = header.high(1);
  if (magic != kFrameMagic || reserved != 0) return Code::kLinkError;
  if ((flags & ~uint32_t{kChecksummed}) != 0) return Code::kLinkError;
  if (bytes > slot_bytes - kFrameHeaderBytes) return Code::kLinkError;
  header.word[0] = bytes;
  uint32_t crc = crc32c(0, &header, sizeof header);
  if ((flags & kChecksummed) != 0) crc = crc32c(crc, slot + kFrameHeaderBytes, bytes);
  if (crc != claimed) return Code::kLinkError;
  header.word[0] = join(bytes, claimed);
  copy_words(header_out, &header, sizeof header);
  return Code::kOk;
}

}  // namespace asyncmesh
