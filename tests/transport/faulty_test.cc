#include "transport/faulty/faulty.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/alloc_guard.h"
#include "tests/conformance/seam_lane.h"
#include "tests/conformance/seam_pair.h"
#include "transport/loopback/loopback.h"

namespace asyncmesh::conformance {
namespace {

using transport::FaultyConfig;
using transport::FaultyTransport;

constexpr LaneGeometry kLane{8, 1016};

// Writes down what comes, in the order in which it comes.
class Log final : public transport::InboundSink {
 public:
  void on_frame(Sequence sequence, std::byte* slot, uint32_t bytes) override {
    order.push_back(sequence);
    if (!frame_matches(1, sequence, slot, bytes)) damaged.push_back(sequence);
  }
  std::vector<Sequence> order;
  std::vector<Sequence> damaged;
};

// A plain writer (side 0) and a reader (side 1) behind the decorator.
class FaultyTest : public testing::Test {
 protected:
  ~FaultyTest() override { writer_.close(); }

  void open(const FaultyConfig& config, Epoch epoch = 1) {
    writer_.close();
    inbound_.reset();
    links_[0].reset();
    links_[1].reset();
    plain_ = transport::make_loopback();
    faulty_ = make_faulty(transport::make_loopback(), config, clock_);
    Transport* const ends[2] = {plain_.get(), faulty_.get()};
    for (uint32_t side = 0; side < 2; ++side) {
      auto link = ends[side]->open_link(1 - side, epoch, ends[1 - side]->address(), downs_[side]);
      ASSERT_TRUE(link.ok());
      links_[side] = std::move(link.value());
    }
    auto inbound = links_[1]->open_inbound(1, kLane, 1, log_);
    ASSERT_TRUE(inbound.ok());
    inbound_ = std::move(inbound.value());
    auto outbound = links_[0]->open_outbound(1, kLane, inbound_->offer(), writer_);
    ASSERT_TRUE(outbound.ok());
    writer_.open(std::move(outbound.value()));
  }
  void progress() {
    while (plain_->progress() + faulty_->progress() > 0) {
    }
  }
  const transport::FaultyCounters& counters() { return faulty_->counters(); }

  FakeClock clock_;
  Log log_;
  SeamWriter writer_{1, kLane, 1};
  LinkRecorder downs_[2];
  std::unique_ptr<Transport> plain_;
  std::unique_ptr<FaultyTransport> faulty_;
  std::unique_ptr<Link> links_[2];
  std::unique_ptr<Inbound> inbound_;
};

using Sequences = std::vector<Sequence>;

TEST_F(FaultyTest, DropsFrames) {
  open({.drop = 1});
  writer_.send_up_to(8);
  progress();
  EXPECT_TRUE(log_.order.empty());
  EXPECT_EQ(counters().dropped, 8u);
}

TEST_F(FaultyTest, DuplicatesAtOnceOrWhileTheSlotIsLent) {
  open({.duplicate = 1});
  writer_.send_up_to(8);
  progress();
  clock_.advance(kMillisecond);
  progress();
  EXPECT_EQ(log_.order.size(), 16u);
  EXPECT_TRUE(log_.damaged.empty());
  EXPECT_EQ(counters().duplicated, 8u);
}

TEST_F(FaultyTest, NeverDuplicatesAReleasedFrame) {
  open({.duplicate = 1});
  writer_.send_up_to(8);
  plain_->progress();
  faulty_->progress();
  const size_t before = log_.order.size();
  for (Sequence sequence = 1; sequence <= 8; ++sequence) inbound_->release(sequence);
  clock_.advance(kMillisecond);
  progress();
  EXPECT_EQ(log_.order.size(), before);
}

TEST_F(FaultyTest, DelaysAndReorders) {
  open({.delay = 0.5});
  writer_.send_up_to(8);
  progress();
  EXPECT_LT(log_.order.size(), 8u);
  EXPECT_LT(faulty_->next_deadline(), clock_.now() + kMillisecond);
  EXPECT_TRUE(faulty_->arm());
  clock_.advance(kMillisecond);
  EXPECT_FALSE(faulty_->arm());
  progress();
  EXPECT_EQ(log_.order.size(), 8u);
  EXPECT_NE(log_.order, (Sequences{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(log_.damaged.empty());
  EXPECT_EQ(faulty_->next_deadline(), kNever);
}

TEST_F(FaultyTest, CorruptsTheSlotAndNotTheSendersFrame) {
  open({.corrupt = 1});
  std::vector<std::byte> frame(1016);
  fill_frame(1, 1, frame.data(), 1016);
  auto inbound = links_[1]->open_inbound(2, kLane, 1, log_);
  ASSERT_TRUE(inbound.ok());
  auto outbound = links_[0]->open_outbound(2, kLane, inbound.value()->offer(), writer_);
  ASSERT_TRUE(outbound.ok());
  ASSERT_EQ(outbound.value()->send(1, {frame.data(), 1016, 0}), Code::kOk);
  progress();
  EXPECT_EQ(log_.damaged, (Sequences{1}));
  EXPECT_TRUE(frame_matches(1, 1, frame.data(), 1016));
  EXPECT_EQ(counters().corrupted, 1u);
}

TEST_F(FaultyTest, DropsCredits) {
  open({.drop_credit = 1});
  // Credit flows to the faulty side only if that side writes.
  SeamWriter writer(1, kLane, 1);
  SeamReader reader(1, kLane, 1);
  auto inbound = links_[0]->open_inbound(2, kLane, 1, reader);
  ASSERT_TRUE(inbound.ok());
  auto outbound = links_[1]->open_outbound(2, kLane, inbound.value()->offer(), writer);
  ASSERT_TRUE(outbound.ok());
  reader.open(std::move(inbound.value()));
  writer.open(std::move(outbound.value()));
  writer.send_up_to(4);
  progress();
  EXPECT_EQ(reader.received(), 4u);
  reader.take(0);
  progress();
  EXPECT_EQ(writer.credit().released, 0u);
  EXPECT_EQ(counters().credits_dropped, 1u);
}

TEST_F(FaultyTest, ACutEndsBothDirectionsWithOrWithoutAWord) {
  bool reported = false;
  bool silent = false;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    writer_ = SeamWriter(1, kLane, 1);
    downs_[1].downs.clear();
    log_.order.clear();
    open({.seed = seed, .cut = 1});
    writer_.send_up_to(8);
    progress();
    EXPECT_TRUE(log_.order.empty());
    EXPECT_EQ(counters().cuts_reported + counters().cuts_silent, 1u);
    EXPECT_EQ(downs_[1].downs.size(), counters().cuts_reported);
    EXPECT_EQ(inbound_->send_credit({1, 1, 1}),
              counters().cuts_silent == 1 ? Code::kOk : Code::kLinkError);
    progress();
    EXPECT_EQ(writer_.credit().released, 0u);
    reported = reported || counters().cuts_reported == 1;
    silent = silent || counters().cuts_silent == 1;
  }
  EXPECT_TRUE(reported);
  EXPECT_TRUE(silent);
}

TEST_F(FaultyTest, StopsAfterItsLimit) {
  open({.drop = 1, .max_faults = 3});
  writer_.send_up_to(8);
  progress();
  EXPECT_EQ(log_.order, (Sequences{4, 5, 6, 7, 8}));
  EXPECT_EQ(counters().total(), 3u);
}

TEST_F(FaultyTest, LeavesLaterEpochsAlone) {
  open({.drop = 1, .last_epoch = 4}, 5);
  writer_.send_up_to(8);
  progress();
  EXPECT_EQ(log_.order.size(), 8u);
}

TEST_F(FaultyTest, TheSameSeedInjectsTheSame) {
  std::vector<Sequences> runs;
  for (int run = 0; run < 2; ++run) {
    writer_ = SeamWriter(1, kLane, 1);
    log_.order.clear();
    open({.seed = 9, .drop = 0.3, .duplicate = 0.3, .delay = 0.3});
    writer_.send_up_to(8);
    progress();
    clock_.advance(kMillisecond);
    progress();
    runs.push_back(log_.order);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(FaultyTest, NothingHeldComesAfterStop) {
  open({.delay = 1});
  writer_.send_up_to(8);
  progress();
  inbound_->stop();
  clock_.advance(kMillisecond);
  progress();
  EXPECT_TRUE(log_.order.empty());
}

TEST_F(FaultyTest, NothingIsAllocatedPerFrame) {
  open({.duplicate = 0.2, .delay = 0.2});
  log_.order.reserve(10'000);
  const auto exchange = [&](uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; ++round) {
      const Sequence first = writer_.next();
      writer_.send_up_to(first + 3);
      clock_.advance(kMillisecond);
      progress();
      for (Sequence sequence = first; sequence < writer_.next(); ++sequence)
        inbound_->release(sequence);
      ASSERT_EQ(inbound_->send_credit({writer_.next() - 1, writer_.next() - 1, writer_.next() - 1}),
                Code::kOk);
      clock_.advance(kMillisecond);
      progress();
    }
  };
  exchange(50);
  const test::AllocGuard guard;
  exchange(500);
  EXPECT_EQ(guard.in_thread(), 0u);
}

}  // namespace
}  // namespace asyncmesh::conformance
