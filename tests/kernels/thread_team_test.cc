#include "kernels/cpu/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
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
