// What the others see when a process is stopped for longer than the peer timeout, and when it goes
// on: over every medium between processes, with two other ranks that exchange frames all the while.
#include <sys/mman.h>

#include <atomic>
#include <new>
#include <thread>

#include "capi/rank_process.h"

namespace asyncmesh_test {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Long enough for a loaded machine not to silence a rank that is well.
constexpr double kPeerTimeout = 2;
// For the scheduler: eight threads and more on few cores.
constexpr double kSlack = 0.5;

// What the processes tell each other beside the mesh.
struct Board {
  std::atomic<bool> end{false};                // the test is over
  std::atomic<uint64_t> sent{0}, received{0};  // by the bystanders
};

class SharedBoard {
 public:
  SharedBoard()
      : memory_(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                     0)) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("mmap");
    board_ = new (memory_) Board;
  }
  ~SharedBoard() { munmap(memory_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board* get() const { return board_; }

 private:
  void* memory_;
  Board* board_ = nullptr;
};

// By the deadline; looks every millisecond.
bool wait_for(const std::function<bool()>& condition, double seconds) {
  const auto end = Clock::now() + Seconds(seconds);
  while (!condition() && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

uint32_t state_of(const Rank& rank, uint32_t peer) {
  asyncmesh_peer_info_t info = {};
  info.struct_size = sizeof info;
  CHECK_OK(asyncmesh_mesh_peer(rank.mesh, peer, &info));
  return info.state;
}

// The bystanders. Both see the loss of rank 2, and nothing of it on their own channel.
int send_to_the_end(Rank& rank, Board* board) {
  asyncmesh_port_t* out = open_channel(rank, ASYNCMESH_PORT_CHANNEL_OUT);
  CHECK_OK(send_frames(out, [board](uint64_t number) {
    board->sent = number;
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // leave the others a core
    return !board->end;
  }));
  const bool saw_loss = state_of(rank, 2) == ASYNCMESH_PEER_STATE_LOST;
  rank.leave();
  asyncmesh_port_close(out);
  return saw_loss ? 0 : 2;
}

int read_to_the_end(Rank& rank, Board* board) {
  asyncmesh_port_t* in = open_channel(rank, ASYNCMESH_PORT_CHANNEL_IN);
  const asyncmesh_status_t status =
      read_frames(in, [board](uint64_t number) { board->received = number + 1; });
  const bool saw_loss = state_of(rank, 2) == ASYNCMESH_PEER_STATE_LOST;
  asyncmesh_port_close(in);
  if (status != ASYNCMESH_CANCELED) check(status, "port_recv", __LINE__);  // the writer left
  return saw_loss ? 0 : 2;
}

// Its memory stays where the writer, once it resumes, might still write.
int read_and_stay(Rank& rank, int fd, Board* board) {
  return read_until_loss(rank, fd, [board](asyncmesh_port_t* in) {
    if (!wait_for([board] { return board->end.load(); }, 60)) throw std::runtime_error("no end");
    asyncmesh_message_t message = {};
    message.struct_size = sizeof message;
    if (asyncmesh_port_recv(in, 0, 0, &message) != ASYNCMESH_PEER_LOST)
      throw std::runtime_error("a frame came after the loss");
  });
}

class Stop : public testing::TestWithParam<Medium> {};
INSTANTIATE_TEST_SUITE_P(Media, Stop, testing::ValuesIn(kProcessMedia),
                         [](const auto& medium) { return medium.param.name; });

RankSetup ranks_of(const Medium& medium, uint32_t count) {
  RankSetup setup = over(medium, {.replicas = 1, .stages = count, .leave = false});
  setup.peer_timeout = static_cast<int64_t>(kPeerTimeout * kSecond);
  return setup;
}

// Stops the writer, waits for the reader's PEER_LOST, and writes down after how many seconds it
// came. `meanwhile` runs before the writer resumes, at the earliest after twice the peer timeout.
void stop_and_resume(Child& writer, const Child& reader, const std::function<void()>& meanwhile,
                     double* lost_after) {
  const auto start = Clock::now();
  writer.signal(SIGSTOP);
  ASSERT_TRUE(reader.wait_byte(20'000));
  *lost_after = Seconds(Clock::now() - start).count();
  meanwhile();
  std::this_thread::sleep_until(start + Seconds(2 * kPeerTimeout));
  writer.signal(SIGCONT);
  EXPECT_EQ(writer.wait_exit(), 0);
}

void stop_beside_bystanders(const Medium& medium, double* lost_after) {
  const RankSetup setup = ranks_of(medium, 4);
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  const SharedBoard shared;
  Board* const board = shared.get();
  Child first(setup, 0, url, [=](Rank& rank, int) { return send_to_the_end(rank, board); });
  Child second(setup, 1, url, [=](Rank& rank, int) { return read_to_the_end(rank, board); });
  Child writer(setup, 2, url, send_until_loss);
  Child reader(setup, 3, url, [=](Rank& rank, int fd) { return read_and_stay(rank, fd, board); });
  ASSERT_TRUE(writer.wait_byte(60'000));
  ASSERT_TRUE(reader.wait_byte(60'000));
  const auto expect_progress = [board] {
    const uint64_t seen = board->received;
    EXPECT_TRUE(wait_for([=] { return board->received > seen + 100; }, 20));
  };
  expect_progress();
  stop_and_resume(writer, reader, expect_progress, lost_after);
  expect_progress();
  board->end = true;
  EXPECT_EQ(reader.wait_exit(), 0);
  EXPECT_EQ(first.wait_exit(), 0);
  EXPECT_EQ(second.wait_exit(), 0);
  EXPECT_EQ(board->received, board->sent);
}

// Rank 0 also runs the rendezvous, which would have judged.
void stop_the_rendezvous(const Medium& medium, double* lost_after) {
  const RankSetup setup = ranks_of(medium, 2);
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  Child writer(setup, 0, url, send_until_loss);
  Child reader(setup, 1, url, [](Rank& rank, int fd) {
    return read_until_loss(rank, fd, [](asyncmesh_port_t*) {});
  });
  ASSERT_TRUE(writer.wait_byte(60'000));
  ASSERT_TRUE(reader.wait_byte(60'000));
  stop_and_resume(
      writer, reader, [&] { EXPECT_EQ(reader.wait_exit(), 0); }, lost_after);
}

// The best of three: the machine may be busy with other things.
void expect_loss_in_time(const Medium& medium, void (*scenario)(const Medium&, double*)) {
  double best = 1e9;
  for (int i = 0; i < 3 && best > kPeerTimeout + kSlack && !testing::Test::HasFailure(); ++i) {
    double seconds = 1e9;
    scenario(medium, &seconds);
    best = std::min(best, seconds);
  }
  EXPECT_LT(best, kPeerTimeout + kSlack) << "seconds";
}

TEST_P(Stop, ForTwiceThePeerTimeoutIsALossInTimeThatHarmsNobodyElse) {
  expect_loss_in_time(GetParam(), stop_beside_bystanders);
}

TEST_P(Stop, OfTheRankWithTheRendezvousIsALossInTimeAsWell) {
  expect_loss_in_time(GetParam(), stop_the_rendezvous);
}

}  // namespace
}  // namespace asyncmesh_test
