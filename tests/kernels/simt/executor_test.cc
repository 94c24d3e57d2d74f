// The executor itself: what it computes, and that it names every misuse.
#include "tests/kernels/simt/executor.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using asyncmesh::kernels::dynamic_shared;
using asyncmesh::kernels::launch_kernel;
using testing::AllOf;
using testing::HasSubstr;

namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

unsigned global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <typename Kernel>
std::string run(dim3 grid, dim3 block, Kernel kernel, size_t shared_bytes = 0) {
  simt::run(grid, block, shared_bytes, kernel);
  return simt::take_failure();
}

__global__ void coordinates(const __grid_constant__ int scale, int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[at] = scale * static_cast<int>(at);
}

TEST(Simt, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> out(2 * 3 * 2 * 4 * 3 * 5, -1);
  launch_kernel(coordinates, dim3(2, 3, 2), dim3(4, 3, 5), 0, nullptr, 3, out.data());
  EXPECT_EQ(simt::take_failure(), "");
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 3 * static_cast<int>(i));
}

__global__ void reverse(const int* in, int* out, bool with_barrier) {
  __shared__ int tile[96];
  tile[threadIdx.x] = in[global_thread()];
  if (with_barrier) __syncthreads();
  out[global_thread()] = tile[blockDim.x - 1 - threadIdx.x];
}

TEST(Simt, BarrierAndStaticSharedMemory) {
  std::vector<int> in(3 * 96), out(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i);
  const auto reversed = [&](bool with_barrier) {
    launch_kernel(reverse, 3, 96, 0, nullptr, in.data(), out.data(), with_barrier);
    EXPECT_EQ(simt::take_failure(), "");
    for (int i = 0; i < 288; ++i) {
      if (out[i] != i / 96 * 96 + 95 - i % 96) return false;
    }
    return true;
  };
  EXPECT_TRUE(reversed(true));
  EXPECT_FALSE(reversed(false));  // a forgotten barrier shows
}

__global__ void vote_of_the_block(int* out) {
  const int odd = static_cast<int>(threadIdx.x % 2);
  out[0] = __syncthreads_count(odd);
  out[1] = __syncthreads_or(threadIdx.x == 5 ? 4 : 0);
  out[2] = __syncthreads_and(odd);
  out[3] = __syncthreads_and(1) + __syncthreads_or(0);
}

TEST(Simt, BarriersThatCount) {
  std::vector<int> out(4);
  launch_kernel(vote_of_the_block, 1, 65, 0, nullptr, out.data());
  EXPECT_EQ(simt::take_failure(), "");
  EXPECT_EQ(out, (std::vector<int>{32, 1, 0, 1}));
}

__global__ void dynamic(double* out) {
  auto* values = dynamic_shared<double>();
  if (threadIdx.x == 0) out[0] = values[0];  // not written yet
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) out[1] = values[6] + values[7];
}

TEST(Simt, DynamicSharedMemoryStartsAsNan) {
  std::vector<double> out(2);
  launch_kernel(dynamic, 2, 8, 8 * sizeof(double), nullptr, out.data());
  EXPECT_EQ(simt::take_failure(), "");
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], 13.0);
}

template <typename T>
__global__ void warp_sums(const T* in, T* down, T* butterfly) {
  T one = in[threadIdx.x], other = one;
  for (int by = 16; by != 0; by /= 2) one += __shfl_down_sync(kAll, one, by);
  for (int by = 16; by != 0; by /= 2) other += __shfl_xor_sync(kAll, other, by);
  if (threadIdx.x % 32 == 0) down[threadIdx.x / 32] = one;
  butterfly[threadIdx.x] = other;
}

template <typename T>
void expect_warp_sums() {
  std::vector<T> in(64), down(2), butterfly(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(i);
  launch_kernel(warp_sums<T>, 1, 64, 0, nullptr, in.data(), down.data(), butterfly.data());
  EXPECT_EQ(simt::take_failure(), "");
  EXPECT_EQ(down, (std::vector<T>{496, 1520}));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(butterfly[i], down[i / 32]);
}

TEST(Simt, ShufflesOfEveryType) {
  expect_warp_sums<int>();
  expect_warp_sums<unsigned long long>();
  expect_warp_sums<float>();
  expect_warp_sums<double>();
}

TEST(Simt, ShufflesWithinSegments) {
  int direct[32], up[32], down[32];
  EXPECT_EQ(run(1, 32,
                [&] {
                  const int lane = static_cast<int>(threadIdx.x);
                  direct[lane] = __shfl_sync(kAll, lane, 9, 8);  // lane 1 of the segment
                  up[lane] = __shfl_up_sync(kAll, lane, 3, 16);
                  down[lane] = __shfl_down_sync(kAll, lane, 3, 16);
                }),
            "");
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(direct[lane], lane / 8 * 8 + 1);
    EXPECT_EQ(up[lane], lane % 16 < 3 ? lane : lane - 3);
    EXPECT_EQ(down[lane], lane % 16 > 12 ? lane : lane + 3);
  }
}

TEST(Simt, VotesOfPartsOfAWarp) {
  unsigned ballots[64] = {};
  int any[64] = {}, all[64] = {};
  EXPECT_EQ(run(1, 48,
                [&] {
                  const unsigned i = threadIdx.x, lane = i % 32;
                  const unsigned mask = lane < 8 ? 0xFFU : i < 32 ? 0xFFFFFF00U : 0xFF00U;
                  ballots[i] = __ballot_sync(mask, lane % 3 == 0);
                  any[i] = __any_sync(mask, lane == 9);
                  if (lane < 8) {  // the others do not come here
                    all[i] = __all_sync(mask, lane < 8);
                    __syncwarp(0xFF);
                  }
                }),
            "");
  EXPECT_EQ(ballots[0], 0x49U);
  EXPECT_EQ(ballots[31], 0x49249200U);
  EXPECT_EQ(ballots[40], 0x9200U);
  EXPECT_EQ(any[0], 0);
  EXPECT_EQ(any[8], 1);
  EXPECT_EQ(all[7], 1);
}

TEST(Simt, SumsOfPartsOfAWarp) {
  unsigned sums[64] = {};
  EXPECT_EQ(run(1, 64,
                [&] {
                  const unsigned i = threadIdx.x, lane = i % 32;
                  sums[i] = __reduce_add_sync(lane < 8 ? 0xFFU : 0xFFFFFF00U, i - 1);
                }),
            "");
  EXPECT_EQ(sums[7], 20U);
  EXPECT_EQ(sums[8], 444U);
  EXPECT_EQ(sums[32], 276U);
}

TEST(Simt, Atomics) {
  unsigned sum = 0, bits = 0, keep = ~0U, least = 99, wins = 0, owner = 0;
  int most = -1;
  unsigned long long wide = 0;
  float floating = 0;
  EXPECT_EQ(run(4, 33,
                [&] {
                  const unsigned i = global_thread();
                  atomicAdd(&sum, 1);
                  atomicAdd(&wide, 1ULL << 40);
                  atomicAdd(&floating, 0.5F);
                  atomicOr(&bits, 1U << (i % 32));
                  atomicAnd(&keep, ~(1U << (i % 8)));
                  atomicMax(&most, static_cast<int>(i));
                  atomicMin(&least, i + 7);
                  if (atomicCAS(&owner, 0, i + 1) == 0) ++wins;
                }),
            "");
  EXPECT_EQ(sum, 132U);
  EXPECT_EQ(wide, 132ULL << 40);
  EXPECT_EQ(floating, 66.0F);
  EXPECT_EQ(bits, kAll);
  EXPECT_EQ(keep, 0xFFFFFF00U);
  EXPECT_EQ(most, 131);
  EXPECT_EQ(least, 7U);
  EXPECT_EQ(wins, 1U);
}

TEST(SimtMisuse, ABarrierThatAThreadNeverReaches) {
  EXPECT_THAT(run(3, 40,
                  [] {
                    if (blockIdx.x == 2 && threadIdx.x == 33) return;
                    __syncthreads();
                  }),
              AllOf(HasSubstr("block (2, 0, 0): thread (0, 0, 0) waits in __syncthreads at "),
                    HasSubstr("executor_test.cc:"),
                    HasSubstr("but thread (33, 0, 0) has left the kernel")));
}

__global__ void two_barriers() {
  if (threadIdx.y == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(SimtMisuse, TwoBarriersInTwoBranches) {
  EXPECT_THAT(run(1, dim3(2, 2), two_barriers),
              HasSubstr("but thread (0, 1, 0) waits in __syncthreads at"));
}

TEST(SimtMisuse, ALaneThatIsElsewhere) {
  EXPECT_THAT(run(1, 32,
                  [] {
                    if (threadIdx.x == 4) __syncthreads();
                    __shfl_xor_sync(kAll, 1, 1);
                  }),
              HasSubstr("but thread (4, 0, 0) waits in __syncthreads"));
  EXPECT_THAT(run(1, 32, [] { __ballot_sync(threadIdx.x == 0 ? 1U : kAll, 1); }),
              AllOf(HasSubstr("waits in a vote"), HasSubstr("thread (0, 0, 0) has left")));
}

TEST(SimtMisuse, ALaneThatDoesNotExist) {
  EXPECT_THAT(run(1, 40, [] { __syncwarp(); }),
              AllOf(HasSubstr("thread (32, 0, 0) waits in __syncwarp"),
                    HasSubstr("lane 8 of its warp does not exist")));
}

TEST(SimtMisuse, AShuffleFromALaneThatTakesNoPart) {
  EXPECT_THAT(run(1, 32,
                  [] {
                    if (threadIdx.x < 16) __shfl_sync(0xFFFF, 1, 20);
                  }),
              HasSubstr("thread (0, 0, 0) reads lane 20 in a shuffle at"));
}

TEST(SimtMisuse, AMaskWithoutItsCallerAndOddWidths) {
  EXPECT_THAT(run(1, 32, [] { __any_sync(2, 1); }),
              HasSubstr("with a mask that does not name its own lane"));
  EXPECT_THAT(run(1, 32, [] { __shfl_sync(kAll, 1, 0, 12); }), HasSubstr("width of 12"));
}

TEST(SimtMisuse, LaunchesThatADeviceRefuses) {
  const auto nothing = [] {};
  EXPECT_THAT(run(0, 32, nothing), HasSubstr("refused: grid (0, 1, 1)"));
  EXPECT_THAT(run(dim3(1, 65536), 32, nothing), HasSubstr("refused: grid"));
  EXPECT_THAT(run(1, 1025, nothing), HasSubstr("refused: block"));
  EXPECT_THAT(run(1, 1, nothing, 1 << 20), HasSubstr("bytes of shared memory"));
}

// The first failure is kept, no other thread of that launch goes on, and the next launch is whole.
TEST(SimtMisuse, EndsItsLaunchOnly) {
  int after = 0, ran = 0;
  simt::run(5, 64, 0, [&] {
    if (threadIdx.x == 63) simt::misuse("objects");
    __syncthreads();
    ++after;
  });
  simt::run(0, 1, 0, [] {});
  simt::run(2, 64, 0, [&] {
    __syncthreads();
    ++ran;
  });
  EXPECT_THAT(simt::take_failure(), AllOf(HasSubstr("block (0, 0, 0)"), HasSubstr("objects")));
  EXPECT_EQ(simt::take_failure(), "");
  EXPECT_EQ(after, 0);
  EXPECT_EQ(ran, 128);
}

}  // namespace
