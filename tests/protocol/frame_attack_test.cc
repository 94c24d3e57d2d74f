// Bytes that no honest writer sends: random slots, mutated frames, well-sealed frames whose meta is
// garbage. Nothing crashes, nothing dishonest is published, and no slot or buffer is lost by it.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/random.h"
#include "channel/channel.h"
#include "lane/lane_reader.h"
#include "mailbox/mailbox.h"
#include "support/fake_mesh.h"

namespace asyncmesh {
namespace {

using test::DirectSubmitter;
using test::FakeMesh;
using transport::Sequence;

constexpr uint32_t kSlots = 4;
constexpr uint32_t kPayload = 64;
constexpr transport::LaneGeometry kGeometry{kSlots, slot_bytes_for(kPayload)};

class NullInbound final : public transport::Inbound {
 public:
  std::span<const std::byte> offer() const override { return {}; }
  void release(Sequence) override {}
  Code send_credit(const transport::Credit&) override { return Code::kOk; }
  void stop() override {}
};

class FrameAttack : public testing::Test {
 protected:
  FrameAttack() { reopen(); }

  void reopen() { reader_.open_st(std::make_unique<NullInbound>()); }
  uint64_t published() const { return reader_.counters_st().frames; }
  void randomize(std::vector<std::byte>& bytes) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
  }

  CounterRandom random_{20};
  std::vector<std::byte> slot_ = std::vector<std::byte>(kGeometry.slot_bytes);
  SpscRing<Received> inbox_{2 * kSlots};
  LaneReader reader_{Origin{}, kGeometry, 0, inbox_};
};

TEST_F(FrameAttack, RandomSlotsAreNeverPublished) {
  for (int round = 0; round < 20'000; ++round) {
    randomize(slot_);
    // Given: the fields that are cheap to guess are right.
    const uint16_t magic = kFrameMagic;
    const uint32_t zero = 0;
    if (round % 2 == 0) {
      std::memcpy(slot_.data() + 10, &magic, sizeof magic);
      std::memcpy(slot_.data() + 12, &zero, sizeof zero);
      slot_[9] = static_cast<std::byte>(random_.below(2));
    }
    const Sequence sequence = random_.below(3) == 0 ? random_() : random_.below(2 * kSlots);
    reader_.on_frame(sequence, slot_.data(), static_cast<uint32_t>(random_()));
    if (reader_.fault_st(0, 1) != Code::kOk) reopen();
  }
  EXPECT_EQ(published(), 0U);
  EXPECT_GT(reader_.counters_st().invalid, 1'000U);
}

TEST_F(FrameAttack, AMutatedFrameIsNeverPublished) {
  for (int round = 0; round < 20'000; ++round) {
    randomize(slot_);
    seal_frame(slot_.data(), static_cast<uint32_t>(random_.below(kPayload + 1)), 1, true);
    FrameHeader header;
    ASSERT_EQ(open_frame(slot_.data(), kGeometry.slot_bytes, &header), Code::kOk);
    const std::vector<std::byte> honest = slot_;
    const size_t covered = kFrameHeaderBytes + header.bytes;
    for (uint64_t flips = 1 + random_.below(3); flips > 0; --flips) {
      slot_[random_.below(covered)] ^= static_cast<std::byte>(1 + random_.below(255));
    }
    if (slot_ == honest) continue;  // two flips may cancel out
    reader_.on_frame(1, slot_.data(), kGeometry.slot_bytes);
    ASSERT_EQ(published(), 0U) << "round " << round;
    reopen();
  }
}

TEST_F(FrameAttack, ALengthCutShortIsNeverReadBeyond) {
  for (uint32_t bytes = 0; bytes < kFrameHeaderBytes + kPayload; ++bytes) {
    std::vector<std::byte> whole(kGeometry.slot_bytes);
    seal_frame(whole.data(), kPayload, 1, true);
    // Exactly as long as it claims to have arrived: a sanitizer sees any read beyond.
    std::vector<std::byte> cut(whole.begin(), whole.begin() + bytes);
    reader_.on_frame(1, cut.data(), bytes);
    ASSERT_EQ(published(), 0U);
    reopen();
  }
}

template <typename Fill>
void send_garbage(Port& port, CounterRandom& random, const Fill& fill) {
  Port::Claim claim;
  ASSERT_EQ(port.claim(0, &claim), Code::kOk);
  fill(claim.meta);
  const auto kind = static_cast<uint8_t>(random.below(6));
  port.commit(claim, 0, static_cast<uint32_t>(random.below(kPayload + 1)), kind);
}

TEST(MetaAttack, AMailboxTakesOnlyConsistentDeltas) {
  const FakeClock clock;
  DirectSubmitter submitter;
  const MailboxConfig config{{0, 1}, 0, kSlots, kPayload, false};
  MailboxConfig other = config;
  other.self = 1;
  Mailbox sender(config, clock, submitter);
  Mailbox receiver(other, clock, submitter);
  FakeMesh mesh;
  mesh.attach(0, sender.port());
  mesh.attach(1, receiver.port());
  mesh.connect();
  CounterRandom random(21);
  uint64_t taken = 0;
  constexpr uint64_t kRounds = 20'000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    send_garbage(sender.port(), random, [&](std::byte* meta) {
      // Small values in most bytes, so that some metas are right.
      for (size_t i = 0; i < kMetaBytes; ++i) {
        meta[i] = static_cast<std::byte>(random.below(3) == 0 ? random.below(4) : 0);
      }
      if (random.below(4) == 0) meta[random.below(kMetaBytes)] = static_cast<std::byte>(random());
    });
    mesh.pump();
    Delta delta;
    if (receiver.take(&delta) == Code::kOk) {
      ++taken;
      ASSERT_LT(delta.meta.piece, delta.meta.pieces);
      ASSERT_LE(kernels::encoded_bytes(delta.meta.encoding, delta.meta.count), delta.bytes);
      ASSERT_GE(delta.meta.weight, 0.0F);
      receiver.release(delta);
    }
    mesh.pump();
  }
  EXPECT_EQ(taken + receiver.malformed(), kRounds);
  EXPECT_GT(taken, 0U);
  EXPECT_GT(receiver.malformed(), 0U);
  EXPECT_EQ(sender.port().unreleased(0), 0U);
}

TEST(MetaAttack, AChannelReceivesOnlyConsistentFrames) {
  const FakeClock clock;
  DirectSubmitter submitter;
  const ChannelConfig config{1, true, kSlots, kPayload};
  ChannelConfig other = config;
  other.peer = 0;
  other.sender = false;
  Channel sender(config, clock, submitter);
  Channel receiver(other, clock, submitter);
  FakeMesh mesh;
  mesh.attach(0, sender.port());
  mesh.attach(1, receiver.port());
  mesh.connect();
  CounterRandom random(22);
  uint64_t received = 0;
  constexpr uint64_t kRounds = 20'000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    send_garbage(sender.port(), random, [&](std::byte* meta) {
      for (size_t i = 0; i < kMetaBytes; ++i) meta[i] = static_cast<std::byte>(random.below(16));
    });
    mesh.pump();
    ChannelFrame frame;
    if (receiver.receive(&frame) == Code::kOk) {
      ++received;
      ASSERT_LE(frame.meta.dimensions, kMaxDimensions);
      ASSERT_LE(frame.bytes, kPayload);
      receiver.release(frame);
    }
    mesh.pump();
  }
  EXPECT_EQ(received + receiver.malformed(), kRounds);
  EXPECT_GT(received, 0U);
  EXPECT_GT(receiver.malformed(), 0U);
  EXPECT_EQ(sender.port().unreleased(0), 0U);
}

}  // namespace
}  // namespace asyncmesh
