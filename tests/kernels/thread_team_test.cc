#include "kernels/cpu/thread_team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cpu/spread.h"

namespace asyncmesh::kernels {
namespace {

struct Seen {
  std::vector<uint32_t> calls;
  void operator()(uint32_t index) { ++calls[index]; }
};

void count(void* context, uint32_t index) { (*static_cast<Seen*>(context))(index); }

TEST(ThreadTeam, CallsEveryTaskOnceInEveryRun) {
  for (const uint32_t size : {0U, 1U, 2U, 3U, 5U}) {
    ThreadTeam team(size);
    ASSERT_EQ(team.size(), size == 0 ? 1 : size);
    Seen seen{std::vector<uint32_t>(team.size(), 0)};
    for (uint32_t run = 1; run <= 500; ++run) {
      team.run(count, &seen);
      // No lock: `run` is what makes the tasks' writes visible here.
      ASSERT_EQ(seen.calls, std::vector<uint32_t>(team.size(), run));
    }
  }
}

TEST(ThreadTeam, RunsTasksAtTheSameTime) {
  ThreadTeam team(3);
  std::atomic<uint32_t> arrived{0};
  team.run(
      [](void* context, uint32_t) {
        auto& all = *static_cast<std::atomic<uint32_t>*>(context);
        all.fetch_add(1);
        while (all.load() < 3) {
        }
      },
      &arrived);
  EXPECT_EQ(arrived.load(), 3U);
}

TEST(ThreadTeam, EndsWithoutEverHavingRun) {
  for (int i = 0; i < 50; ++i) ThreadTeam team(4);
}

TEST(ThreadTeam, WakesThreadsThatHaveGoneToSleep) {
  ThreadTeam team(3);
  Seen seen{std::vector<uint32_t>(3, 0)};
  for (uint32_t run = 1; run <= 20; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    team.run(count, &seen);
    ASSERT_EQ(seen.calls, std::vector<uint32_t>(3, run));
  }
}

TEST(ThreadTeam, IsMadeWholeOrNotAtAll) {
  for (const uint32_t size : {0U, 1U, 3U}) {
    const std::unique_ptr<Workers> team = make_thread_team(size);
    ASSERT_NE(team, nullptr);
    EXPECT_EQ(team->size(), size == 0 ? 1 : size);
  }
}

TEST(ThreadTeam, CallersAtTheSameTimeAllGetTheirTasksDone) {
  ThreadTeam team(3);
  constexpr uint32_t kRuns = 2000;
  const auto caller = [&](std::vector<uint32_t>* calls) {
    Seen seen{std::vector<uint32_t>(3, 0)};
    for (uint32_t run = 0; run < kRuns; ++run) team.run(count, &seen);
    *calls = seen.calls;
  };
  std::vector<uint32_t> first, second, third;
  std::thread one(caller, &first), two(caller, &second);
  caller(&third);
  one.join();
  two.join();
  const std::vector<uint32_t> all(3, kRuns);
  EXPECT_EQ(first, all);
  EXPECT_EQ(second, all);
  EXPECT_EQ(third, all);
}

TEST(ThreadTeam, ATaskMayRunTasks) {
  struct Nested {
    ThreadTeam team{3};
    std::atomic<uint32_t> calls{0};
  } nested;
  for (int run = 0; run < 100; ++run) {
    nested.team.run(
        [](void* context, uint32_t) {
          auto& self = *static_cast<Nested*>(context);
          self.team.run(
              [](void* inner, uint32_t) { static_cast<Nested*>(inner)->calls.fetch_add(1); },
              &self);
        },
        &nested);
  }
  EXPECT_EQ(nested.calls.load(), 900U);
}

TEST(ThreadTeam, TasksHaveTheFloatingPointEnvironmentOfTheirCaller) {
  ThreadTeam team(3);
  std::vector<int> modes(3);
  const auto look = [](void* context, uint32_t index) {
    (*static_cast<std::vector<int>*>(context))[index] = std::fegetround();
  };
  for (const int mode : {FE_TOWARDZERO, FE_UPWARD, FE_TONEAREST}) {
    std::fesetround(mode);
    for (int run = 0; run < 50; ++run) {
      team.run(look, &modes);
      EXPECT_EQ(modes, std::vector<int>(3, mode));
    }
  }
}

TEST(ThreadTeam, AForkedChildWorksAloneAndEnds) {
  auto team = std::make_unique<ThreadTeam>(3);
  Seen seen{std::vector<uint32_t>(3, 0)};
  team->run(count, &seen);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    team->run(count, &seen);
    team.reset();
    _exit(seen.calls == std::vector<uint32_t>(3, 2) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Spread, CoversEveryUnitOnce) {
  ThreadTeam team(3);
  for (const uint64_t units : {0U, 1U, 9U, 10U, 11U, 100U}) {
    std::vector<uint32_t> seen(units, 0);
    spread(&team, units, 5, [&](uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) ++seen[i];
    });
    EXPECT_EQ(seen, std::vector<uint32_t>(units, 1));
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
