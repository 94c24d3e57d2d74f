#include "mesh/control_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace asyncmesh::mesh {
namespace {

using Next = FrameReader::Next;
using Bytes = std::vector<std::byte>;

Digest key(uint8_t seed) {
  Digest digest{};
  digest.fill(static_cast<std::byte>(seed));
  return digest;
}

Bytes body_of(size_t size) {
  Bytes body(size);
  for (size_t i = 0; i < size; ++i) body[i] = static_cast<std::byte>(i * 7);
  return body;
}

void feed(FrameReader& reader, ByteSpan bytes) {
  const std::span<std::byte> room = reader.space_for(bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  reader.commit(bytes.size());
}

struct SealedPair {
  FrameWriter writer;
  FrameReader reader;
  SealedPair() {
    EXPECT_TRUE(writer.seal_with(key(1)));
    EXPECT_TRUE(reader.unseal_with(key(1)));
  }
};

TEST(ControlFrame, ComesOutAsItWentIn) {
  SealedPair pair;
  Bytes wire;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}, kMaxBody}) {
    ASSERT_TRUE(pair.writer.append({Space::kApplication, 77, body_of(size)}, wire));
  }
  feed(pair.reader, wire);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}, kMaxBody}) {
    ControlFrame frame;
    ASSERT_EQ(pair.reader.next(&frame), Next::kFrame);
    EXPECT_EQ(frame.space, Space::kApplication);
    EXPECT_EQ(frame.type, 77);
    EXPECT_TRUE(std::ranges::equal(frame.body, body_of(size)));
  }
  ControlFrame frame;
  EXPECT_EQ(pair.reader.next(&frame), Next::kNeedMore);
}

TEST(ControlFrame, AssemblesSingleBytes) {
  SealedPair pair;
  Bytes wire;
  ASSERT_TRUE(pair.writer.append({Space::kMesh, 3, body_of(50)}, wire));
  ControlFrame frame;
  for (size_t i = 0; i < wire.size(); ++i) {
    EXPECT_EQ(pair.reader.next(&frame), Next::kNeedMore);
    feed(pair.reader, ByteSpan(wire).subspan(i, 1));
  }
  EXPECT_EQ(pair.reader.next(&frame), Next::kFrame);
}

TEST(ControlFrame, RefusesEveryFlippedBit) {
  SealedPair reference;
  Bytes wire;
  ASSERT_TRUE(reference.writer.append({Space::kMesh, 3, body_of(20)}, wire));
  for (size_t bit = 0; bit < wire.size() * 8; ++bit) {
    SealedPair pair;
    Bytes changed = wire;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    feed(pair.reader, changed);
    ControlFrame frame;
    EXPECT_NE(pair.reader.next(&frame), Next::kFrame) << bit;
  }
}

TEST(ControlFrame, RefusesARepeatedFrame) {
  SealedPair pair;
  Bytes wire;
  ASSERT_TRUE(pair.writer.append({Space::kMesh, 3, body_of(20)}, wire));
  feed(pair.reader, wire);
  feed(pair.reader, wire);
  ControlFrame frame;
  EXPECT_EQ(pair.reader.next(&frame), Next::kFrame);
  EXPECT_EQ(pair.reader.next(&frame), Next::kBroken);
}

TEST(ControlFrame, RefusesAMissingFrame) {
  SealedPair pair;
  Bytes lost;
  Bytes wire;
  ASSERT_TRUE(pair.writer.append({Space::kMesh, 3, {}}, lost));
  ASSERT_TRUE(pair.writer.append({Space::kMesh, 3, {}}, wire));
  feed(pair.reader, wire);
  ControlFrame frame;
  EXPECT_EQ(pair.reader.next(&frame), Next::kBroken);
}

TEST(ControlFrame, RefusesAnotherKey) {
  FrameWriter writer;
  FrameReader reader;
  ASSERT_TRUE(writer.seal_with(key(1)));
  ASSERT_TRUE(reader.unseal_with(key(2)));
  Bytes wire;
  ASSERT_TRUE(writer.append({Space::kMesh, 3, {}}, wire));
  feed(reader, wire);
  ControlFrame frame;
  EXPECT_EQ(reader.next(&frame), Next::kBroken);
}

TEST(ControlFrame, RefusesAHugeLengthOnItsHeader) {
  for (const bool sealed : {false, true}) {
    FrameReader reader;
    if (sealed) {
      ASSERT_TRUE(reader.unseal_with(key(1)));
    }
    Bytes header(kFrameHeaderBytes, std::byte{0});
    const auto size = static_cast<uint32_t>(sealed ? kMaxBody + 1 : kMaxHandshakeBody + 1);
    std::memcpy(header.data(), &size, sizeof size);
    feed(reader, header);
    ControlFrame frame;
    EXPECT_EQ(reader.next(&frame), Next::kBroken);
    EXPECT_NE(reader.why().find("limit"), std::string::npos);
  }
}

TEST(ControlFrame, RefusesMeshFramesBeforeAuthentication) {
  FrameWriter writer;
  FrameReader reader;
  Bytes wire;
  ASSERT_TRUE(writer.append({Space::kApplication, 1, {}}, wire));
  feed(reader, wire);
  ControlFrame frame;
  EXPECT_EQ(reader.next(&frame), Next::kBroken);
}

TEST(ControlFrame, SurvivesGarbage) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    FrameReader reader;
    if (round % 2 == 0) {
      ASSERT_TRUE(reader.unseal_with(key(1)));
    }
    for (int piece = 0; piece < 8; ++piece) {
      Bytes garbage(random() % 64);
      // Half of it small numbers, so that lengths are believable.
      for (std::byte& byte : garbage)
        byte = static_cast<std::byte>(random() % (random() % 2 == 0 ? 3 : 256));
      feed(reader, garbage);
      ControlFrame frame;
      while (reader.next(&frame) == Next::kFrame) EXPECT_EQ(frame.space, Space::kHandshake);
    }
    EXPECT_LE(reader.buffered(), 8U * 64U);
  }
}

TEST(ControlFrame, GivesALargeBufferBack) {
  SealedPair pair;
  Bytes wire;
  ASSERT_TRUE(pair.writer.append({Space::kMesh, 3, body_of(kMaxBody)}, wire));
  feed(pair.reader, wire);
  ControlFrame frame;
  ASSERT_EQ(pair.reader.next(&frame), Next::kFrame);
  EXPECT_LE(pair.reader.space_for(1024).size(), 64U * 1024U);
}

}  // namespace
}  // namespace asyncmesh::mesh
