#include "lane/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"

namespace asyncmesh {
namespace {

constexpr uint32_t kPayload = 100;

std::vector<std::byte> sealed(bool checksum, uint32_t payload = kPayload) {
  std::vector<std::byte> frame(slot_bytes_for(kPayload));
  for (size_t i = 16; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(i);
  seal_frame(frame.data(), payload, 7, checksum);
  return frame;
}

Code open(const std::vector<std::byte>& frame) {
  FrameHeader header;
  return open_frame(frame.data(), static_cast<uint32_t>(frame.size()), &header);
}

TEST(Frame, SlotsTakeThePayloadInWholeCacheLinesBehindTheHeader) {
  for (uint32_t payload = 0; payload < 1000; ++payload) {
    const transport::LaneGeometry geometry{4, slot_bytes_for(payload)};
    ASSERT_EQ(geometry.stride() % 64, 0U);
    ASSERT_GE(geometry.slot_bytes, payload + kFrameHeaderBytes);
    ASSERT_LT(geometry.slot_bytes, payload + kFrameHeaderBytes + 64);
  }
}

TEST(Frame, OpensAsItWasSealed) {
  for (const bool checksum : {false, true}) {
    const std::vector<std::byte> frame = sealed(checksum);
    FrameHeader header;
    ASSERT_EQ(open_frame(frame.data(), static_cast<uint32_t>(frame.size()), &header), Code::kOk);
    EXPECT_EQ(header.bytes, kPayload);
    EXPECT_EQ(header.kind, 7);
    EXPECT_EQ(header.flags, checksum ? kChecksummed : 0);
    EXPECT_EQ(std::memcmp(header.meta, frame.data() + 16, kMetaBytes), 0);
  }
}

TEST(Frame, AnEmptyPayloadIsAFrame) { EXPECT_EQ(open(sealed(true, 0)), Code::kOk); }

TEST(Frame, EveryFlippedHeaderBitIsFound) {
  for (size_t bit = 0; bit < kFrameHeaderBytes * 8; ++bit) {
    std::vector<std::byte> frame = sealed(false);
    frame[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_EQ(open(frame), Code::kLinkError) << "bit " << bit;
  }
}

TEST(Frame, AFlippedPayloadBitIsFoundOnlyWhenChecksummed) {
  for (const bool checksum : {false, true}) {
    std::vector<std::byte> frame = sealed(checksum);
    frame[kFrameHeaderBytes + kPayload / 2] ^= std::byte{4};
    EXPECT_EQ(open(frame), checksum ? Code::kLinkError : Code::kOk);
  }
}

TEST(Frame, ASlotShorterThanTheHeaderIsRefused) {
  const std::vector<std::byte> frame = sealed(false);
  FrameHeader header;
  for (uint32_t bytes = 0; bytes < kFrameHeaderBytes; ++bytes) {
    ASSERT_EQ(open_frame(frame.data(), bytes, &header), Code::kLinkError);
  }
}

TEST(Frame, AFrameThatArrivedShortIsRefused) {
  const std::vector<std::byte> frame = sealed(true);
  FrameHeader header;
  EXPECT_EQ(open_frame(frame.data(), kFrameHeaderBytes + kPayload, &header), Code::kOk);
  EXPECT_EQ(open_frame(frame.data(), kFrameHeaderBytes + kPayload - 1, &header), Code::kLinkError);
}

// A length that is honestly checksummed but larger than the slot must not be followed.
TEST(Frame, ALengthBeyondTheSlotIsRefusedEvenWithAGoodChecksum) {
  std::vector<std::byte> frame = sealed(false);
  for (const uint32_t bytes : {kPayload + 1000, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    header.bytes = bytes;
    header.flags = kChecksummed;
    header.crc = 0;
    header.crc = crc32c(0, &header, sizeof header);
    std::memcpy(frame.data(), &header, sizeof header);
    EXPECT_EQ(open(frame), Code::kLinkError);
  }
}

TEST(Frame, UnknownFlagsAndReservedBytesAreRefusedEvenWithAGoodChecksum) {
  for (const bool flags : {false, true}) {
    std::vector<std::byte> frame = sealed(false);
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    if (flags) {
      header.flags = 2;
    } else {
      header.reserved = 1;
    }
    header.crc = 0;
    header.crc = crc32c(0, &header, sizeof header);
    std::memcpy(frame.data(), &header, sizeof header);
    EXPECT_EQ(open(frame), Code::kLinkError);
  }
}

TEST(Frame, SealOverwritesWhatAnEarlierLapLeft) {
  std::vector<std::byte> frame(slot_bytes_for(kPayload), std::byte{0xFF});
  seal_frame(frame.data(), kPayload, 1, true);
  EXPECT_EQ(open(frame), Code::kOk);
}

}  // namespace
}  // namespace asyncmesh
