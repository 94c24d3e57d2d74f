// Each end driven by its own thread, as two contexts with progress threads do.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/conformance/seam_fixture.h"

namespace asyncmesh::conformance {
namespace {

class SeamThreads : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    pair_ = std::make_unique<SeamPair>(GetParam(), true);
    ASSERT_TRUE(pair_->ready().ok()) << pair_->ready().text();
  }
  void open(Epoch epoch, Sequence first) {
    const Status opened = pair_->open_links(epoch);
    ASSERT_TRUE(opened.ok()) << opened.text();
    for (uint32_t side = 0; side < 2; ++side) {
      auto lane = pair_->open_lane(side, 1, {8, 2040}, first, epoch * 2 + side);
      ASSERT_TRUE(lane.ok()) << lane.status().text();
      lanes_[side] = std::move(lane.value());
    }
  }

  // Writes lane `side` and reads the other one, until both have come to `last`, `stop`, or the
  // deadline.
  void drive(uint32_t side, Sequence last, const std::function<bool()>& stop, bool sleeps = false) {
    const WallDeadline deadline(20 * kSecond);
    SeamWriter& writer = lanes_[side]->writer;
    SeamReader& reader = lanes_[1 - side]->reader;
    bool told = false;
    // It goes on until its peer is done too: the peer may still need the last credit.
    while (!deadline.passed() && !stop()) {
      const uint32_t sent = writer.send_up_to(last);
      const uint32_t moved = pair_->transport(side).progress() + reader.take(0);
      if (!told && writer.credit().released >= last && reader.released() >= last) {
        told = true;
        done_.fetch_add(1);
      }
      if (sent + moved > 0) continue;
      if (sleeps) {
        sleep(pair_->transport(side));
      } else {
        std::this_thread::yield();
      }
    }
  }

  // As an owner with nothing to do: until something comes, something is due, or the backstop of 10
  // ms.
  void sleep(Transport& transport) {
    if (!transport.capabilities().has_event_fd || !transport.arm()) return;
    constexpr Nanoseconds kBackstop = 10 * kMillisecond;
    const Nanoseconds due = transport.next_deadline();
    const Nanoseconds left =
        due == kNever ? kBackstop
                      : std::clamp<Nanoseconds>(due - pair_->clock().now(), 0, kBackstop);
    const timespec timeout{0, static_cast<decltype(timespec::tv_nsec)>(left)};
    pollfd waiter{transport.event_fd(), POLLIN, 0};
    (void)::ppoll(&waiter, 1, &timeout, nullptr);
  }

  std::unique_ptr<SeamPair> pair_;
  std::unique_ptr<SeamLane> lanes_[2];
  std::atomic<int> done_{0};
};

TEST_P(SeamThreads, TwoOwnersExchangeFramesBothWays) {
  open(1, 1);
  const auto both_done = [this] { return done_.load() == 2; };
  std::thread other([&] { drive(1, 1000, both_done); });
  drive(0, 1000, both_done);
  other.join();
  EXPECT_EQ(done_.load(), 2);
  for (auto& lane : lanes_) EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamThreads, OwnersMaySleepBetweenFrames) {
  open(1, 1);
  const auto both_done = [this] { return done_.load() == 2; };
  std::thread other([&] { drive(1, 300, both_done, true); });
  drive(0, 300, both_done, true);
  other.join();
  EXPECT_EQ(done_.load(), 2);
  for (auto& lane : lanes_) EXPECT_EQ(lane->error(), "");
}

TEST_P(SeamThreads, AnOwnerClosesItsEndUnderTraffic) {
  for (Epoch epoch = 1; epoch <= 8; ++epoch) {
    open(epoch, 1);
    std::atomic<bool> closed{false};
    const uint32_t closer = epoch % 2;
    std::thread other([&] {
      // Closes everything of its own in the middle, from its own thread, in the order that epoch
      // says.
      drive(closer, 1'000'000, [&] { return lanes_[1 - closer]->reader.received() > 20u * epoch; });
      if (epoch % 4 < 2) pair_->close_link(closer);
      lanes_[closer]->writer.close();
      lanes_[1 - closer]->reader.close();
      if (epoch % 4 >= 2) pair_->close_link(closer);
      closed.store(true);
    });
    int more = 0;
    drive(1 - closer, 1'000'000, [&] { return closed.load() && ++more > 100; });
    other.join();
    for (auto& lane : lanes_) EXPECT_EQ(lane->error(), "");
    lanes_[0].reset();
    lanes_[1].reset();
    pair_->close_link(0);
    pair_->close_link(1);
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, SeamThreads, testing::ValuesIn(lossless_backends()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace asyncmesh::conformance
