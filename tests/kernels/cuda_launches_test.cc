// What the host does in a call of cuda() is launches, and they do not depend on what device memory
// holds: that is what a graph captures. On the executor only.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/kernels/cuda_calls.h"
#include "tests/kernels/simt/device_memory.h"
#include "tests/kernels/simt/executor.h"

namespace asyncmesh::kernels {
namespace {

using backend::Call;
using backend::Contents;
using backend::every_call;
using backend::kAllContents;
using simt::Recording;

int stream;  // its address
const Execution kOn = {nullptr, &stream};

std::vector<simt::Launch> launches_of(const Call& call, Recording::Kernels kernels) {
  const Recording recording(kernels);
  call.run(*cuda(), kOn);
  return recording.launches();
}

TEST(CudaLaunches, AreTheSameWhateverMemoryHolds) {
  auto calls = every_call(), reference = every_call();
  for (size_t i = 0; i < calls.size(); ++i) {
    Call& call = calls[i];
    call.fill(Contents::kOrdinary);
    const auto expected = launches_of(call, Recording::Kernels::kDoNotRun);
    EXPECT_FALSE(expected.empty()) << call.name();
    for (const simt::Launch& launch : expected) EXPECT_EQ(launch.stream, &stream) << call.name();
    for (const Contents contents : kAllContents) {
      call.fill(contents);
      EXPECT_EQ(launches_of(call, Recording::Kernels::kRun), expected) << call.name();
      ASSERT_EQ(backend::finish(), "") << call.name();
      reference[i].fill(contents);
      reference[i].run(cpu(), {});
      EXPECT_TRUE(call.agrees(reference[i])) << static_cast<int>(contents);
    }
  }
}

// Neither arguments nor geometry come from device memory: the host cannot read it.
TEST(CudaLaunchesDeathTest, AreAskedForWithoutReadingDeviceMemory) {
  simt::Sealable memory;
  for (Call& call : every_call()) {
    call.fill(Contents::kOther);
    const auto expected = launches_of(call, Recording::Kernels::kDoNotRun);
    EXPECT_EXIT(
        {
          memory.seal(true);
          exit(launches_of(call, Recording::Kernels::kDoNotRun) == expected ? 0 : 1);
        },
        testing::ExitedWithCode(0), "")
        << call.name();
  }
}

TEST(CudaLaunchesDeathTest, SealedMemoryCannotBeRead) {
  simt::Sealable memory;
  const backend::Array<uint32_t> array(10, 7);
  EXPECT_DEATH(
      {
        memory.seal(true);
        exit(array[3] == 7 ? 0 : 1);
      },
      "");
  EXPECT_EQ(array[3], 7U);
}

}  // namespace
}  // namespace asyncmesh::kernels
