#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace asyncmesh {
namespace {

std::vector<unsigned char> random_bytes(size_t size) {
  CounterRandom random(size);
  std::vector<unsigned char> bytes(size);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

TEST(Crc32c, GivesThePublishedValues) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32c(0, digits.data(), digits.size()), 0xE3069283U);
  // RFC 3720, B.4.
  const std::vector<unsigned char> zeros(32, 0x00);
  const std::vector<unsigned char> ones(32, 0xFF);
  std::vector<unsigned char> rising(32);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(crc32c(0, zeros.data(), zeros.size()), 0x8A9136AAU);
  EXPECT_EQ(crc32c(0, ones.data(), ones.size()), 0x62A8AB43U);
  EXPECT_EQ(crc32c(0, rising.data(), rising.size()), 0x46DD794EU);
}

TEST(Crc32c, OfNothingIsTheSeed) {
  EXPECT_EQ(crc32c(0, nullptr, 0), 0U);
  EXPECT_EQ(crc32c(0x1234, nullptr, 0), 0x1234U);
}

TEST(Crc32c, PathsAgreeAtEveryLengthAroundTheBlockSizes) {
  const std::vector<unsigned char> bytes = random_bytes(40'000);
  for (const size_t centre : {0, 8, 256, 512, 768, 1536, 4096, 12288, 24576, 39000}) {
    for (size_t size = centre < 20 ? 0 : centre - 20; size < centre + 20; ++size) {
      ASSERT_EQ(crc32c(5, bytes.data(), size), crc32c_portable(5, bytes.data(), size)) << size;
    }
  }
}

TEST(Crc32c, AHeaderIsItsFirstWordAndTheRest) {
  const std::vector<unsigned char> bytes = random_bytes(sizeof(uint64_t) + kCrcTailBytes);
  uint64_t first = 0;
  std::memcpy(&first, bytes.data(), sizeof first);
  EXPECT_EQ(crc32c_header(first, bytes.data() + sizeof first),
            crc32c_portable(0, bytes.data(), bytes.size()));
}

TEST(Crc32c, DoesNotDependOnAlignment) {
  const std::vector<unsigned char> bytes = random_bytes(13'000);
  for (size_t shift = 0; shift < 16; ++shift) {
    std::vector<unsigned char> moved(shift);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    ASSERT_EQ(crc32c(0, moved.data() + shift, bytes.size()),
              crc32c_portable(0, bytes.data(), bytes.size()));
  }
}

TEST(Crc32c, ContinuesFromTheResultForThePrefix) {
  const std::vector<unsigned char> bytes = random_bytes(5'000);
  const uint32_t whole = crc32c(0, bytes.data(), bytes.size());
  for (const size_t cut : {0, 1, 7, 80, 800, 4'999, 5'000}) {
    const uint32_t head = crc32c(0, bytes.data(), cut);
    EXPECT_EQ(crc32c(head, bytes.data() + cut, bytes.size() - cut), whole);
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::vector<unsigned char> bytes = random_bytes(300);
  const uint32_t good = crc32c(0, bytes.data(), bytes.size());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1U << (bit % 8)));
    ASSERT_NE(crc32c(0, bytes.data(), bytes.size()), good);
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1U << (bit % 8)));
  }
}

}  // namespace
}  // namespace asyncmesh
