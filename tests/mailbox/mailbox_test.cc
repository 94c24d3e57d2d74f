#include "mailbox/mailbox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "support/fake_mesh.h"

namespace asyncmesh {
namespace {

using test::DirectSubmitter;
using test::FakeMesh;

constexpr uint32_t kSlots = 4;
constexpr uint32_t kValues = 8;

class MailboxTest : public testing::Test {
 protected:
  MailboxTest() { build({2, 5, 9}); }
  ~MailboxTest() override { EXPECT_EQ(mesh_->violations(), 0U); }

  void build(const std::vector<Rank>& members) {
    mesh_ = std::make_unique<FakeMesh>();
    boxes_.clear();
    for (const Rank rank : members) {
      const MailboxConfig config{members, rank, kSlots, kValues * 4, true};
      boxes_.push_back(std::make_unique<Mailbox>(config, clock_, submitter_));
      mesh_->attach(rank, boxes_.back()->port());
    }
    mesh_->connect();
  }
  Mailbox& box(size_t member) { return *boxes_[member]; }
  Code post(size_t member, const DeltaMeta& meta, float value = 0) {
    Mailbox::Post post;
    const Code code = box(member).claim(&post);
    if (code != Code::kOk) return code;
    const std::vector<float> values(meta.count, value);
    std::memcpy(post.values, values.data(), values.size() * sizeof(float));
    box(member).commit(post, meta, static_cast<uint32_t>(values.size() * sizeof(float)));
    return Code::kOk;
  }
  static DeltaMeta round(uint64_t number) {
    DeltaMeta meta;
    meta.round = number;
    meta.count = kValues;
    return meta;
  }
  static uint32_t take_all(Mailbox& mailbox) {
    Delta delta;
    uint32_t deltas = 0;
    for (; mailbox.take(&delta) == Code::kOk; ++deltas) mailbox.release(delta);
    return deltas;
  }

  FakeClock clock_;
  DirectSubmitter submitter_;
  std::vector<std::unique_ptr<Mailbox>> boxes_;
  std::unique_ptr<FakeMesh> mesh_;
};

TEST_F(MailboxTest, KnowsItsMembers) {
  EXPECT_EQ(box(1).size(), 3U);
  EXPECT_EQ(box(1).self(), 1U);
  EXPECT_EQ(box(1).rank_of(2), 9U);
  for (uint32_t member = 0; member < 3; ++member) EXPECT_TRUE(box(1).alive(member));
}

TEST_F(MailboxTest, PostsReachEveryOtherMemberAndNotTheSender) {
  ASSERT_EQ(post(1, round(3), 1.5F), Code::kOk);
  mesh_->pump();
  for (const size_t member : {0, 2}) {
    Delta delta;
    ASSERT_EQ(box(member).take(&delta), Code::kOk);
    EXPECT_EQ(delta.member, 1U);
    EXPECT_EQ(delta.bytes, kValues * 4);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(delta.values) % 16, 0U);
    float value = 0;
    std::memcpy(&value, delta.values + 4, sizeof value);
    EXPECT_EQ(value, 1.5F);
    box(member).release(delta);
    EXPECT_EQ(box(member).take(&delta), Code::kAgain);
  }
  EXPECT_EQ(take_all(box(1)), 0U);
}

TEST_F(MailboxTest, MetaTravelsWhole) {
  DeltaMeta meta;
  meta.kind = DeltaKind::kFinish;
  meta.encoding = kernels::Encoding::kFloat16;
  meta.piece = 6;
  meta.pieces = 7;
  meta.round = 0x0123456789ABCDEFULL;
  meta.step = 0xFEDCBA9876543210ULL;
  meta.count = 3;
  meta.weight = 0.25F;
  meta.flags = kLastRound;
  ASSERT_EQ(post(0, meta), Code::kOk);
  mesh_->pump();
  Delta delta;
  ASSERT_EQ(box(2).take(&delta), Code::kOk);
  EXPECT_EQ(delta.meta.kind, meta.kind);
  EXPECT_EQ(delta.meta.encoding, meta.encoding);
  EXPECT_EQ(delta.meta.piece, meta.piece);
  EXPECT_EQ(delta.meta.pieces, meta.pieces);
  EXPECT_EQ(delta.meta.round, meta.round);
  EXPECT_EQ(delta.meta.step, meta.step);
  EXPECT_EQ(delta.meta.count, meta.count);
  EXPECT_EQ(delta.meta.weight, meta.weight);
  EXPECT_EQ(delta.meta.flags, meta.flags);
}

TEST_F(MailboxTest, KeepsTheOrderOfEverySender) {
  for (uint64_t i = 0; i < kSlots; ++i) {
    ASSERT_EQ(post(0, round(i)), Code::kOk);
    ASSERT_EQ(post(1, round(i)), Code::kOk);
  }
  mesh_->pump();
  uint64_t next[2] = {0, 0};
  Delta delta;
  while (box(2).take(&delta) == Code::kOk) {
    ASSERT_LT(delta.member, 2U);
    EXPECT_EQ(delta.meta.round, next[delta.member]++);
    box(2).release(delta);
  }
  EXPECT_EQ(next[0] + next[1], 2 * kSlots);
}

TEST_F(MailboxTest, AnswersAgainWhenOneMemberDoesNotTake) {
  for (uint64_t i = 0; i < kSlots; ++i) {
    ASSERT_EQ(post(0, round(i)), Code::kOk);
    mesh_->pump();
    take_all(box(1));
    mesh_->pump();
  }
  EXPECT_EQ(post(0, round(9)), Code::kAgain);
  take_all(box(2));
  mesh_->pump();
  EXPECT_EQ(post(0, round(9)), Code::kOk);
}

TEST_F(MailboxTest, AMutedMemberNeitherReceivesNorHoldsBack) {
  box(0).mute(2);
  box(0).mute(0);  // self: nothing to do
  for (uint64_t i = 0; i < 3 * kSlots; ++i) {
    ASSERT_EQ(post(0, round(i)), Code::kOk);
    mesh_->pump();
    ASSERT_EQ(take_all(box(1)), 1U);
    mesh_->pump();
  }
  EXPECT_EQ(take_all(box(2)), 0U);
  ASSERT_EQ(post(2, round(0)), Code::kOk);
  mesh_->pump();
  EXPECT_EQ(take_all(box(0)), 1U);
}

TEST_F(MailboxTest, ALostMemberIsNotAliveAndItsDeltasAreStillThere) {
  ASSERT_EQ(post(2, round(1)), Code::kOk);
  mesh_->pump();
  mesh_->kill(9);
  EXPECT_FALSE(box(0).alive(2));
  EXPECT_TRUE(box(0).alive(1));
  EXPECT_EQ(take_all(box(0)), 1U);
  for (uint64_t i = 0; i < 2 * kSlots; ++i) {
    ASSERT_EQ(post(0, round(i)), Code::kOk);
    mesh_->pump();
    take_all(box(1));
    mesh_->pump();
  }
}

TEST_F(MailboxTest, PostsGoNowhereWhenNobodyIsLeft) {
  mesh_->kill(5);
  mesh_->kill(9);
  for (uint64_t i = 0; i < 10 * kSlots; ++i) ASSERT_EQ(post(0, round(i)), Code::kOk);
}

TEST_F(MailboxTest, AloneItAcceptsEveryPost) {
  build({4});
  for (uint64_t i = 0; i < 10 * kSlots; ++i) ASSERT_EQ(post(0, round(i)), Code::kOk);
  EXPECT_EQ(take_all(box(0)), 0U);
}

TEST_F(MailboxTest, AbandonedPostsAreNotSent) {
  for (uint32_t i = 0; i < 10 * kSlots; ++i) {
    Mailbox::Post post;
    ASSERT_EQ(box(0).claim(&post), Code::kOk);
    box(0).abandon(post);
  }
  mesh_->pump();
  EXPECT_EQ(take_all(box(1)), 0U);
}

// Each of these is sealed by an honest lane, but contradicts itself as a delta.
TEST_F(MailboxTest, DropsReleasesAndCountsWhatIsNotADelta) {
  std::vector<DeltaMeta> wrong(7, round(1));
  wrong[0].kind = static_cast<DeltaKind>(0);
  wrong[1].kind = static_cast<DeltaKind>(200);
  wrong[2].encoding = static_cast<kernels::Encoding>(5);
  wrong[3].piece = wrong[3].pieces = 2;
  wrong[4].weight = std::numeric_limits<float>::quiet_NaN();
  wrong[5].weight = -1;
  wrong[6].weight = std::numeric_limits<float>::infinity();
  uint64_t dropped = 0;
  for (const DeltaMeta& meta : wrong) {
    ASSERT_EQ(post(0, meta), Code::kOk);
    ASSERT_EQ(post(0, round(dropped)), Code::kOk);
    mesh_->pump();
    Delta delta;
    ASSERT_EQ(box(1).take(&delta), Code::kOk);
    EXPECT_EQ(delta.meta.round, dropped);
    box(1).release(delta);
    EXPECT_EQ(box(1).malformed(), ++dropped);
    take_all(box(2));
    mesh_->pump();
  }
}

TEST_F(MailboxTest, DropsACountBeyondItsBytes) {
  for (const uint64_t count :
       {uint64_t{kValues + 1}, uint64_t{1} << 62, std::numeric_limits<uint64_t>::max()}) {
    Mailbox::Post post;
    ASSERT_EQ(box(0).claim(&post), Code::kOk);
    DeltaMeta meta = round(0);
    meta.count = count;
    box(0).commit(post, meta, kValues * 4);
    mesh_->pump();
    EXPECT_EQ(take_all(box(1)), 0U);
    EXPECT_EQ(take_all(box(2)), 0U);
    mesh_->pump();
  }
  EXPECT_EQ(box(1).malformed(), 3U);
}

}  // namespace
}  // namespace asyncmesh
