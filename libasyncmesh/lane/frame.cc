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

static_assert(kFrameHeaderBytes == sizeof(uint64_t) + kCrcTailBytes);

// The first two words of a header. Written and read as whole words, never as fields (copy_words.h).
struct Start {
  uint64_t word[2];

  uint32_t low(size_t index) const { return static_cast<uint32_t>(word[index]); }
  uint32_t high(size_t index) const { return static_cast<uint32_t>(word[index] >> 32); }
};
static_assert(sizeof(Start) == offsetof(FrameHeader, meta));

constexpr size_t kTail = sizeof(uint64_t);  // the header but its first word, in which the crc lies

uint64_t join(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }

}  // namespace

void seal_frame(std::byte* frame, uint32_t payload_bytes, uint8_t kind,
                bool checksum_payload) noexcept {
  const uint32_t flags = checksum_payload ? kChecksummed : 0;
  Start start;
  start.word[0] = payload_bytes;
  start.word[1] = kind | flags << 8 | uint32_t{kFrameMagic} << 16;
  copy_words(frame + kTail, &start.word[1], sizeof(uint64_t));
  uint32_t crc = crc32c_header(start.word[0], frame + kTail);
  if (checksum_payload) crc = crc32c(crc, frame + kFrameHeaderBytes, payload_bytes);
  start.word[0] = join(payload_bytes, crc);
  copy_words(frame, &start.word[0], sizeof(uint64_t));
}

Code open_frame(const std::byte* slot, uint32_t slot_bytes, FrameHeader* header_out) noexcept {
  if (slot_bytes < kFrameHeaderBytes) return Code::kLinkError;
  // The slot is memory that a peer writes: only this copy is looked at and handed on.
  copy_words(header_out, slot, sizeof *header_out);
  Start start;
  copy_words(&start, header_out, sizeof start);
  const uint32_t bytes = start.low(0);
  const uint32_t claimed = start.high(0);
  const uint32_t flags = (start.low(1) >> 8) & 0xFF;
  const uint32_t magic = start.low(1) >> 16;
  const uint32_t reserved = start.high(1);
  if (magic != kFrameMagic || reserved != 0) return Code::kLinkError;
  if ((flags & ~uint32_t{kChecksummed}) != 0) return Code::kLinkError;
  if (bytes > slot_bytes - kFrameHeaderBytes) return Code::kLinkError;
  uint32_t crc = crc32c_header(bytes, reinterpret_cast<const std::byte*>(header_out) + kTail);
  if ((flags & kChecksummed) != 0) crc = crc32c(crc, slot + kFrameHeaderBytes, bytes);
  return crc == claimed ? Code::kOk : Code::kLinkError;
}

}  // namespace asyncmesh
