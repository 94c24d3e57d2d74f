// Operations, doorbell and activity, with and without threads.
#include "core/progress.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/owner_call.h"

namespace asyncmesh::core {
namespace {

TEST(Doorbell, RingsOnlyWhenTheOwnerSleeps) {
  Doorbell bell;
  ASSERT_TRUE(bell.open().ok());
  const auto readable = [&bell] {
    pollfd fd{bell.fd(), POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
  };
  bell.ring();
  EXPECT_FALSE(readable());
  bell.prepare_sleep();
  EXPECT_FALSE(readable());
  bell.ring();
  bell.ring();
  EXPECT_TRUE(readable());
  bell.wake(true);
  EXPECT_FALSE(readable());
}

TEST(Doorbell, ALateWriteIsReadByTheNextSleep) {
  Doorbell bell;
  ASSERT_TRUE(bell.open().ok());
  bell.prepare_sleep();
  bell.ring();
  bell.wake(true);
  // As if the ringer's write came only now.
  eventfd_t one = 1;
  ASSERT_EQ(write(bell.fd(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  bell.prepare_sleep();
  bell.wake(true);
  pollfd fd{bell.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&fd, 1, 0), 0);
}

TEST(Progress, RunsCommandsInOrder) {
  SteadyClock clock;
  OperationRing operations;
  ASSERT_TRUE(operations.open().ok());
  Activity activity;
  Progress progress(clock, operations, activity);
  int order = 0;
  auto first = [&order] { order = order * 10 + 1; };
  auto second = [&order] { order = order * 10 + 2; };
  OwnerCall one(first);
  OwnerCall two(second);
  operations.post({nullptr, &one});
  operations.post({nullptr, &two});
  EXPECT_EQ(progress.do_work_st(), 2u);
  EXPECT_EQ(order, 12);
  EXPECT_EQ(progress.do_work_st(), 0u);
}

TEST(Progress, AnExceptionTravelsToTheCaller) {
  SteadyClock clock;
  OperationRing operations;
  ASSERT_TRUE(operations.open().ok());
  Activity activity;
  Progress progress(clock, operations, activity);
  auto thrower = [] { throw std::runtime_error("inside"); };
  OwnerCall call(thrower);
  operations.post({nullptr, &call});
  progress.do_work_st();
  EXPECT_THROW(call.wait(), std::runtime_error);
}

TEST(Progress, ASleepingOwnerIsWokenByAnOperation) {
  SteadyClock clock;
  OperationRing operations;
  ASSERT_TRUE(operations.open().ok());
  Activity activity;
  Progress progress(clock, operations, activity);
  std::atomic<bool> stop{false};
  std::thread owner([&] {
    while (!stop.load()) progress.step_st(kNever);
  });
  std::atomic<int> count{0};
  for (int i = 0; i < 200; ++i) {
    auto add = [&count] { ++count; };
    OwnerCall call(add);
    operations.post({nullptr, &call});
    call.wait();
  }
  stop = true;
  operations.bell().ring();
  owner.join();
  EXPECT_EQ(count.load(), 200);
}

TEST(Activity, WaitSeesWhatWasAnnouncedBefore) {
  Activity activity;
  const uint64_t seen = activity.count();
  activity.announce();
  EXPECT_TRUE(activity.wait(seen, 0));
  EXPECT_FALSE(activity.wait(activity.count(), 0));
}

}  // namespace
}  // namespace asyncmesh::core
