#include "base/byte_io.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace asyncmesh {
namespace {

std::vector<std::byte> sample() {
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  writer.u8(1);
  writer.u16(0x0302);
  writer.u32(0x07060504);
  writer.u64(std::numeric_limits<uint64_t>::max() - 1);
  writer.i64(-5);
  writer.f32(1.5F);
  writer.f64(-2.25);
  writer.text("rank");
  return bytes;
}

TEST(ByteWriter, WritesLittleEndianWithoutPadding) {
  const std::vector<std::byte> bytes = sample();
  ASSERT_EQ(bytes.size(), 1U + 2 + 4 + 8 + 8 + 4 + 8 + 4 + 4);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(bytes[i], static_cast<std::byte>(i + 1));
}

TEST(ByteReader, ReadsWhatWasWritten) {
  const std::vector<std::byte> bytes = sample();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u8(), 1);
  EXPECT_EQ(reader.u16(), 0x0302);
  EXPECT_EQ(reader.u32(), 0x07060504U);
  EXPECT_EQ(reader.u64(), std::numeric_limits<uint64_t>::max() - 1);
  EXPECT_EQ(reader.i64(), -5);
  EXPECT_EQ(reader.f32(), 1.5F);
  EXPECT_EQ(reader.f64(), -2.25);
  EXPECT_EQ(reader.text(), "rank");
  EXPECT_TRUE(reader.done());
}

TEST(ByteReader, FailsForGoodAtTheFirstFieldThatDoesNotFit) {
  const std::vector<std::byte> bytes(3);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u32(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0);
  EXPECT_FALSE(reader.ok());
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.left(), 0U);
}

TEST(ByteReader, RefusesALengthBeyondTheEnd) {
  std::vector<std::byte> bytes;
  ByteWriter(bytes).u32(std::numeric_limits<uint32_t>::max());
  ByteReader reader(bytes);
  EXPECT_TRUE(reader.blob().empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, IsNotDoneWithBytesLeft) {
  const std::vector<std::byte> bytes(2);
  ByteReader reader(bytes);
  reader.u8();
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.left(), 1U);
}

TEST(ByteReader, NeverReadsPastTheEndOfAnyPrefix) {
  const std::vector<std::byte> bytes = sample();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<long>(size));
    ByteReader reader(prefix);
    reader.u8();
    reader.u16();
    reader.u32();
    reader.u64();
    reader.i64();
    reader.f32();
    reader.f64();
    (void)reader.text();
    ASSERT_FALSE(reader.ok()) << size;
  }
}

TEST(ByteReader, SurvivesRandomBytes) {
  CounterRandom random(1);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<std::byte> bytes(random.below(40));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    ByteReader reader(bytes);
    while (reader.ok()) {
      if (random.below(2) == 0) {
        (void)reader.text();
      } else {
        reader.u16();
      }
    }
  }
}

}  // namespace
}  // namespace asyncmesh
