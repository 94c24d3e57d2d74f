// No allocation per posted frame and per averaging call after warm-up, progress included: the whole
// process is counted, both ranks and both progress owners. UCX underneath may take two per
// thousand.
#include <atomic>

#include "capi/ranks.h"
#include "support/alloc_guard.h"

namespace asyncmesh_test {
namespace {

using asyncmesh::test::AllocGuard;

constexpr uint64_t kRounds = 1000;

// The timers stay out of the measured time: no probe, no heartbeat.
RankSetup quiet(const Medium& medium, uint32_t progress) {
  RankSetup setup = over(medium, {.replicas = 2});
  setup.progress = progress;
  setup.peer_timeout = 3600 * kSecond;
  return setup;
}

uint64_t allowed(const Medium& medium) {
  return medium.engine == ASYNCMESH_ENGINE_LOOPBACK ? 0 : 2 * 2 * kRounds / 1000;
}

class Allocation : public testing::TestWithParam<Medium> {};
INSTANTIATE_TEST_SUITE_P(Media, Allocation, testing::ValuesIn(kMedia),
                         [](const auto& medium) { return medium.param.name; });

// Both ranks come here; who waits keeps its progress going.
class Meeting {
 public:
  void arrive_and_wait(const Rank& rank, uint32_t progress) {
    const uint32_t target = (arrived_.fetch_add(1) / 2 + 1) * 2;
    while (arrived_.load() < target) {
      if (progress == ASYNCMESH_PROGRESS_MANUAL)
        CHECK_OK(asyncmesh_context_do_work(rank.context, nullptr));
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<uint32_t> arrived_{0};
};

TEST(AllocGuard, CountsInsideTheLibrary) {
  const AllocGuard guard;
  asyncmesh_stage_t* stage = nullptr;
  CHECK_OK(asyncmesh_stage_create(nullptr, &stage));
  EXPECT_GT(guard.in_process(), 0u);
  asyncmesh_stage_destroy(stage);
}

struct Channels {
  asyncmesh_port_t* out = nullptr;
  asyncmesh_port_t* in = nullptr;

  explicit Channels(const Rank& rank) {
    asyncmesh_port_config_t config = ASYNCMESH_PORT_CONFIG_INIT;
    config.peer = 1 - rank.rank;
    config.payload_bytes = 4096;
    config.kind = ASYNCMESH_PORT_CHANNEL_OUT;
    CHECK_OK(asyncmesh_port_open(rank.mesh, &config, &out));
    config.kind = ASYNCMESH_PORT_CHANNEL_IN;
    CHECK_OK(asyncmesh_port_open(rank.mesh, &config, &in));
  }
  void exchange(const void* data, uint64_t bytes) const {
    asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
    send.data = data;
    send.bytes = bytes;
    send.timeout_ns = 20 * kSecond;
    CHECK_OK(asyncmesh_port_send(out, &send));
    asyncmesh_message_t message = {};
    message.struct_size = sizeof message;
    CHECK_OK(asyncmesh_port_recv(in, 0, 20 * kSecond, &message));
    CHECK_OK(asyncmesh_port_release(in, message.token));
  }
  void close() const {
    asyncmesh_port_close(out);
    asyncmesh_port_close(in);
  }
};

void expect_frames_free(const Medium& medium, uint32_t progress) {
  Meeting meeting;
  run_ranks(quiet(medium, progress), [&](Rank& rank) {
    const Channels channels(rank);
    const std::vector<std::byte> payload(4096);
    for (uint64_t i = 0; i < 300; ++i) channels.exchange(payload.data(), i * 13 % 4096);
    meeting.arrive_and_wait(rank, progress);
    const AllocGuard guard;
    for (uint64_t i = 0; i < kRounds; ++i) channels.exchange(payload.data(), i * 13 % 4096);
    const uint64_t allocations = guard.in_process();
    EXPECT_LE(allocations, allowed(medium));
    meeting.arrive_and_wait(rank, progress);
    rank.leave();
    channels.close();
  });
}

TEST_P(Allocation, FramesTakeNoneWithAThread) {
  expect_frames_free(GetParam(), ASYNCMESH_PROGRESS_THREAD);
}

TEST_P(Allocation, FramesTakeNoneByHand) {
  expect_frames_free(GetParam(), ASYNCMESH_PROGRESS_MANUAL);
}

TEST_P(Allocation, AveragingCallsTakeNone) {
  Meeting meeting;
  run_ranks(quiet(GetParam(), ASYNCMESH_PROGRESS_THREAD), [&](Rank& rank) {
    std::vector<float> weights(40'000);
    asyncmesh_region_t* region = make_region(rank.context, {&weights});
    asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
    config.mode = ASYNCMESH_MODE_DETERMINISTIC;
    asyncmesh_averager_t* averager = nullptr;
    CHECK_OK(asyncmesh_averager_create(rank.mesh, region, &config, &averager));
    const auto step = [&] {
      for (size_t i = 0; i < weights.size(); i += 10) weights[i] += 1.0F;
      asyncmesh_averager_result_t result = {};
      result.struct_size = sizeof result;
      CHECK_OK(asyncmesh_averager_call(averager, nullptr, &result));
    };
    for (int i = 0; i < 100; ++i) step();
    meeting.arrive_and_wait(rank, ASYNCMESH_PROGRESS_THREAD);
    const AllocGuard guard;
    for (uint64_t i = 0; i < kRounds; ++i) step();
    const uint64_t allocations = guard.in_process();
    // These frames are long enough for a rendezvous, whose ids UCX keeps in a hash table that it
    // rebuilds now and then.
    EXPECT_LE(allocations, 5 * allowed(GetParam()));
    meeting.arrive_and_wait(rank, ASYNCMESH_PROGRESS_THREAD);
    CHECK_OK(asyncmesh_averager_finish(averager, 20 * kSecond));
    rank.leave();
    asyncmesh_averager_destroy(averager);
    asyncmesh_region_destroy(region);
  });
}

}  // namespace
}  // namespace asyncmesh_test
