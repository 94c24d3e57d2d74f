// What a mesh of processes makes of SIGKILL, SIGSTOP, SIGCONT and fork.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "../mesh/mesh_party.h"
#include "mesh_rank_process.h"

namespace asyncmesh::mesh {
namespace {

using World = std::vector<std::unique_ptr<RankProcess>>;
constexpr Nanoseconds kMillisecond = 1'000'000;
// Long enough that a machine which also compiles something does not look like a stopped peer.
constexpr int64_t kTimeoutMs = 4'000;

std::string line_start(Rank rank, const char* state) {
  return "peer " + std::to_string(rank) + " " + state;
}

// Every observer reports `rank` as lost; the times since `since`.
std::vector<Nanoseconds> losses(World& world, const std::vector<Rank>& observers, Rank rank,
                                Nanoseconds since) {
  std::vector<Nanoseconds> delays;
  for (const Rank observer : observers) {
    const std::string line = world[observer]->expect(line_start(rank, "lost"));
    EXPECT_FALSE(line.empty()) << "rank " << observer << " did not lose rank " << rank;
    EXPECT_NE(line.find("rank " + std::to_string(rank) + " ("), std::string::npos) << line;
    EXPECT_NE(line.find("pid "), std::string::npos) << line;
    delays.push_back(time_of(line) - since);
  }
  std::sort(delays.begin(), delays.end());
  return delays;
}

void expect_no_lines(World& world, const std::vector<Rank>& ranks, const std::string& start) {
  for (const Rank rank : ranks) {
    world[rank]->read_available();
    for (const std::string& line : world[rank]->lines()) {
      EXPECT_FALSE(line.starts_with(start)) << "rank " << rank << ": " << line;
    }
  }
}

void expect_talking(World& world, Rank from, Rank to) {
  world[from]->command('m');
  EXPECT_EQ(world[to]->expect("message " + std::to_string(from)),
            "message " + std::to_string(from));
}

void expect_death_at_once(std::vector<Nanoseconds> delays) {
  std::printf("noticed after %.2f to %.2f ms\n", static_cast<double>(delays.front()) * 1e-6,
              static_cast<double>(delays.back()) * 1e-6);
  // The median: a single observer may not have been given a CPU in time.
  EXPECT_LT(delays[delays.size() / 2], 50 * kMillisecond);
  EXPECT_LT(delays.back(), kTimeoutMs * kMillisecond / 4);
}

void sleep_for(Nanoseconds duration) {
  poll(nullptr, 0, static_cast<int>(duration / kMillisecond));
}

TEST(MeshProcess, NoticesAKilledWorkerAtOnce) {
  const ReservedPort port;
  World world = start_world(4, port.port(), kTimeoutMs);
  const SteadyClock clock;
  const Nanoseconds killed = clock.now();
  world[2]->signal(SIGKILL);
  expect_death_at_once(losses(world, {0, 1, 3}, 2, killed));
  expect_talking(world, 1, 3);
  expect_no_lines(world, {0, 1, 3}, "mesh_lost");
}

TEST(MeshProcess, NoticesTheDeathOfTheRendezvousHostAtOnce) {
  const ReservedPort port;
  World world = start_world(4, port.port(), kTimeoutMs);
  const SteadyClock clock;
  Nanoseconds killed = clock.now();
  world[0]->signal(SIGKILL);
  expect_death_at_once(losses(world, {1, 2, 3}, 0, killed));
  expect_talking(world, 1, 2);
  killed = clock.now();
  world[3]->signal(SIGKILL);
  expect_death_at_once(losses(world, {1, 2}, 3, killed));
  expect_talking(world, 2, 1);
  expect_no_lines(world, {1, 2}, "mesh_lost");
}

TEST(MeshProcess, RemovesAStoppedWorkerWithinTheTimeout) {
  const ReservedPort port;
  World world = start_world(4, port.port(), kTimeoutMs);
  const SteadyClock clock;
  const Nanoseconds stopped = clock.now();
  world[3]->signal(SIGSTOP);
  const auto delays = losses(world, {0, 1, 2}, 3, stopped);
  std::printf("removed after %.2f s of %.0f\n", static_cast<double>(delays.back()) * 1e-9,
              static_cast<double>(kTimeoutMs) * 1e-3);
  EXPECT_LT(delays.back(), kTimeoutMs * kMillisecond);
  EXPECT_GT(delays.front(), kTimeoutMs * kMillisecond / 4);

  world[3]->signal(SIGCONT);
  EXPECT_FALSE(world[3]->expect("mesh_lost").empty());
  expect_no_lines(world, {3}, "peer");
  expect_talking(world, 0, 2);
  expect_no_lines(world, {0, 1, 2}, "mesh_lost");
  expect_no_lines(world, {0, 1, 2}, "peer 0 lost");
}

TEST(MeshProcess, GoesOnWithoutAStoppedRendezvousHost) {
  const ReservedPort port;
  World world = start_world(4, port.port(), kTimeoutMs);
  const SteadyClock clock;
  const Nanoseconds stopped = clock.now();
  world[0]->signal(SIGSTOP);
  const auto delays = losses(world, {1, 2, 3}, 0, stopped);
  EXPECT_LT(delays.back(), kTimeoutMs * kMillisecond);

  world[0]->signal(SIGCONT);
  const std::string line = world[0]->expect("mesh_lost");
  EXPECT_FALSE(line.empty());
  expect_no_lines(world, {0}, "peer");
  expect_talking(world, 1, 3);
  expect_talking(world, 3, 2);
  expect_no_lines(world, {1, 2, 3}, "mesh_lost");
}

TEST(MeshProcess, BlamesNobodyWhenAllWereStopped) {
  const ReservedPort port;
  constexpr int64_t kShortMs = 1'600;
  World world = start_world(3, port.port(), kShortMs);
  for (const auto& rank : world) rank->signal(SIGSTOP);
  sleep_for(2 * kShortMs * kMillisecond);
  for (const auto& rank : world) rank->signal(SIGCONT);
  expect_talking(world, 0, 1);
  expect_talking(world, 2, 0);
  expect_no_lines(world, {0, 1, 2}, "peer 0 lost");
  expect_no_lines(world, {0, 1, 2}, "peer 1 lost");
  expect_no_lines(world, {0, 1, 2}, "peer 2 lost");
  expect_no_lines(world, {0, 1, 2}, "mesh_lost");
}

TEST(MeshProcess, ForgivesAShortStop) {
  const ReservedPort port;
  World world = start_world(3, port.port(), kTimeoutMs);
  world[1]->signal(SIGSTOP);
  sleep_for(kTimeoutMs * kMillisecond / 4);
  world[1]->signal(SIGCONT);
  expect_talking(world, 1, 0);
  expect_talking(world, 2, 1);
  expect_no_lines(world, {0, 1, 2}, "peer");
}

// A forked child of a killed process lives on. Before descriptors were closed in the child, its
// copies kept the sockets open, and peers saw a death only as silence.
TEST(MeshProcess, NoticesADeathThatAForkedChildSurvives) {
  const ReservedPort port;
  World world = start_world(4, port.port(), kTimeoutMs);
  std::vector<pid_t> children;
  for (const Rank rank : {0U, 2U}) {
    world[rank]->command('f');
    const std::string line = world[rank]->expect("forked ");
    children.push_back(line.empty() ? -1 : std::atoi(line.c_str() + 7));
  }
  const SteadyClock clock;
  Nanoseconds killed = clock.now();
  world[2]->signal(SIGKILL);
  expect_death_at_once(losses(world, {0, 1, 3}, 2, killed));
  killed = clock.now();
  world[0]->signal(SIGKILL);
  expect_death_at_once(losses(world, {1, 3}, 0, killed));
  for (const auto& rank : world) rank->kill_and_reap();

  // Nor do the children keep the port.
  for (const pid_t child : children) {
    ASSERT_GT(child, 0);
    EXPECT_EQ(kill(child, 0), 0) << "the child should have outlived its parent";
  }
  World again = start_world(2, port.port(), kTimeoutMs);
  for (const pid_t child : children) kill(child, SIGKILL);
}

TEST(MeshProcess, LetsAForkedChildDestroyItsCopy) {
  const ReservedPort port;
  World world = start_world(3, port.port(), kTimeoutMs);
  for (const Rank rank : {0U, 1U}) {
    world[rank]->command('d');
    EXPECT_FALSE(world[rank]->expect("forked ").empty());
  }
  expect_talking(world, 0, 1);
  expect_talking(world, 1, 2);
  expect_talking(world, 2, 0);
  expect_no_lines(world, {0, 1, 2}, "peer");
  for (const auto& rank : world) rank->command('l');
  for (const auto& rank : world) EXPECT_EQ(rank->expect("left"), "left");
}

TEST(MeshProcess, StartsAgainAtOnceAfterKillNine) {
  const ReservedPort port;
  for (int round = 0; round < 3; ++round) {
    World world = start_world(3, port.port(), kTimeoutMs);
    for (const auto& rank : world) rank->signal(SIGKILL);
    for (const auto& rank : world) rank->kill_and_reap();
  }
}

TEST(MeshProcess, LeavesInGoodOrder) {
  const ReservedPort port;
  World world = start_world(4, port.port(), kTimeoutMs);
  for (const auto& rank : world) rank->command('l');
  for (const auto& rank : world) EXPECT_EQ(rank->expect("left"), "left");
  for (Rank rank = 0; rank < 4; ++rank) {
    expect_no_lines(world, {rank}, "mesh_lost");
    for (const std::string& line : world[rank]->lines())
      EXPECT_EQ(line.find("lost"), std::string::npos) << line;
  }
}

TEST(MeshProcess, TellsAProcessWithAWrongSecret) {
  const ReservedPort port;
  RankProcess first({0, 2, port.port(), kTimeoutMs, "secret"});
  RankProcess wrong({1, 2, port.port(), kTimeoutMs, "guess"});
  EXPECT_NE(wrong.expect("refused ").find("secret"), std::string::npos);
  RankProcess right({1, 2, port.port(), kTimeoutMs, "secret"});
  EXPECT_EQ(right.expect("joined"), "joined");
  EXPECT_EQ(first.expect("joined"), "joined");
}

}  // namespace
}  // namespace asyncmesh::mesh

int main(int argc, char** argv) {
  if (const auto status = asyncmesh::mesh::run_as_rank(argc, argv)) return *status;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
