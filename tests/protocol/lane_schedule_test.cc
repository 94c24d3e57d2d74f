// Random schedules: frames and credit are dropped, doubled, reordered and corrupted, links cut and
// reset at any moment, the application stalls and releases out of order, watchdogs run on a fake
// clock. Whatever happens, every committed frame is received exactly once, in order and whole, and
// every buffer comes back. A failing seed is printed and repeats.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "base/random.h"
#include "lane/port.h"
#include "support/fake_mesh.h"

namespace asyncmesh {
namespace {

using test::FakeMesh;
using test::FakeWire;
using test::QueuedSubmitter;
using transport::Credit;

constexpr uint32_t kFrames = 150;
constexpr uint32_t kPayload = 96;
constexpr Nanoseconds kQuiet = 20;
constexpr Nanoseconds kTimeout = 100;

class Schedule {
 public:
  explicit Schedule(uint64_t seed)
      : random_(seed),
        slots_(2U << random_.below(3)),
        writer_({{1}, {}, slots_, kPayload, true}, clock_, queue_),
        reader_({{}, {0}, slots_, kPayload}, clock_, queue_),
        mesh_(random_.below(2) == 0) {
    mesh_.attach(0, writer_);
    mesh_.attach(1, reader_);
  }

  void run() {
    for (int steps = 0; (received_ < kFrames || !lent_.empty()) && steps < 400'000; ++steps) {
      step();
    }
    EXPECT_EQ(received_, kFrames);
    settle();
    expect_nothing_is_left();
  }
  uint64_t resets() const { return resets_; }
  uint64_t replayed() { return writer_.writer_st(0).counters_st().replayed; }

 private:
  FakeWire* wire() { return mesh_.wire(0, 1); }
  LaneWriter& lane_writer() { return writer_.writer_st(0); }
  LaneReader& lane_reader() { return reader_.reader_st(0); }

  void step() {
    clock_.advance(1);
    switch (random_.below(12)) {
      case 0:
      case 1:
        return post();
      case 2:
        queue_.drain_st();
        return;
      case 3:
      case 4:
      case 5:
        return move_frame();
      case 6:
        return move_credit();
      case 7:
        return receive();
      case 8:
        return release();
      case 9:
        return watch();
      case 10:
        lane_reader().flush_credit_st(clock_.now(), kQuiet);
        return;
      case 11:
        return disturb();
    }
  }

  void post() {
    Port::Claim claim;
    if (posted_ == kFrames || writer_.claim(0, &claim) != Code::kOk) return;
    if (random_.below(20) == 0) return writer_.abandon(claim);
    const auto bytes = static_cast<uint32_t>(8 + random_.below(kPayload - 7));
    for (uint32_t i = 0; i < bytes; ++i) claim.payload[i] = static_cast<std::byte>(posted_ + i);
    std::memcpy(claim.payload, &posted_, sizeof posted_);
    std::memset(claim.meta, static_cast<int>(posted_ & 0x7F), kMetaBytes);
    writer_.commit(claim, 0, bytes, 1);
    ++posted_;
  }

  void move_frame() {
    if (wire() == nullptr || wire()->frames() == 0) return;
    const auto any = static_cast<uint32_t>(random_.below(wire()->frames()));
    switch (random_.below(40)) {
      case 0:
        return wire()->drop(any);
      case 1:
        wire()->duplicate(any);
        return;
      case 2:
        return wire()->corrupt(any, static_cast<uint32_t>(random_()));
      case 3:
      case 4:
      case 5:
        return wire()->deliver(any);
      default:
        return wire()->deliver(0);
    }
  }

  void move_credit() {
    if (wire() == nullptr || !wire()->credit()) return;
    if (random_.below(4) == 0) {
      wire()->drop_credit();
    } else {
      wire()->deliver_credit();
    }
  }

  void receive() {
    Received received;
    if (lent_.size() >= slots_ || reader_.receive(&received) != Code::kOk) return;
    expect_whole(received, received_);
    ++received_;
    lent_.push_back(received);
  }

  void release() {
    if (lent_.empty()) return;
    const auto at = lent_.begin() + static_cast<long>(random_.below(lent_.size()));
    // Still as it was when it came, however many resets ago.
    expect_whole(*at, at->sequence - 1);
    reader_.release(*at);
    lent_.erase(at);
  }

  static void expect_whole(const Received& received, uint64_t number) {
    uint64_t value = 0;
    std::memcpy(&value, received.payload, sizeof value);
    ASSERT_EQ(value, number);
    ASSERT_EQ(received.sequence, number + 1);
    ASSERT_EQ(received.header.meta[kMetaBytes - 1], static_cast<std::byte>(number & 0x7F));
    for (uint32_t i = sizeof value; i < received.header.bytes; ++i) {
      ASSERT_EQ(received.payload[i], static_cast<std::byte>(number + i));
    }
  }

  // The link manager of both ends, in one.
  void watch() {
    const Nanoseconds now = clock_.now();
    if (wire() == nullptr) return mesh_.connect();
    if (lane_writer().probe_due_st(now, kQuiet)) answers_.push_back(lane_reader().credit_st());
    if (!answers_.empty() && random_.below(2) == 0) {
      lane_writer().on_credit(answers_.front());
      answers_.pop_front();
    }
    if (lane_writer().stalled_st(now, kTimeout) || lane_writer().fault_st() != Code::kOk ||
        lane_reader().fault_st(now, kTimeout) != Code::kOk) {
      reset();
    }
  }

  void disturb() {
    if (random_.below(30) == 0) reset();
  }

  void reset() {
    ++resets_;
    mesh_.cut_all();
    if (random_.below(2) == 0) mesh_.connect();
  }

  void settle() {
    queue_.drain_st();
    mesh_.cut_all();
    mesh_.connect();
    mesh_.pump();
    mesh_.pump();
  }

  void expect_nothing_is_left() {
    EXPECT_EQ(writer_.unreleased(0), 0U);
    EXPECT_EQ(writer_.untaken(0), 0U);
    EXPECT_FALSE(reader_.readable());
    EXPECT_EQ(mesh_.violations(), 0U);
    EXPECT_FALSE(queue_.overflowed());
    std::vector<Port::Claim> claims(2 * slots_);
    for (Port::Claim& claim : claims) ASSERT_EQ(writer_.claim_buffer(&claim), Code::kOk);
    for (const Port::Claim& claim : claims) writer_.abandon(claim);
  }

  CounterRandom random_;
  uint32_t slots_;
  FakeClock clock_;
  QueuedSubmitter queue_{64};
  Port writer_;
  Port reader_;
  FakeMesh mesh_;
  std::deque<Credit> answers_;  // to probes, on the control socket
  std::vector<Received> lent_;
  uint64_t posted_ = 0;
  uint64_t received_ = 0;
  uint64_t resets_ = 0;
};

TEST(LaneSchedule, EveryFrameArrivesOnceInOrderAndWholeWhateverHappens) {
  uint64_t resets = 0;
  uint64_t replayed = 0;
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Schedule schedule(seed);
    schedule.run();
    resets += schedule.resets();
    replayed += schedule.replayed();
  }
  // The schedules must have been bad ones.
  EXPECT_GT(resets, 1'000U);
  EXPECT_GT(replayed, 1'000U);
}

}  // namespace
}  // namespace asyncmesh
