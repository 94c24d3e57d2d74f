// Running sums over more values than any kernel's test has.
#include "kernels/cuda/scan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"
#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

template <typename T>
__global__ void scan_kernel(T* values, uint64_t count, T* total) {
  const T sum = device::scan_array(values, count);
  if (threadIdx.x == 77) *total = sum;
}

template <typename T>
void expect_sums(uint64_t count, uint64_t largest) {
  backend::Random random(count);
  std::vector<T> values(count), expected(count);
  T sum = 0, total = 1;
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(random.bits() % largest) << (sizeof(T) == 8 ? 20 : 0);
    expected[i] = sum;
    sum += values[i];
  }
  launch_kernel(scan_kernel<T>, 1, kThreads, 0, nullptr, values.data(), count, &total);
  ASSERT_EQ(backend::finish(), "");
  EXPECT_EQ(values, expected);
  EXPECT_EQ(total, sum);
}

TEST(Scan, ReplacesEachByTheSumOfThoseBefore) {
  for (const uint64_t count : {0, 1, 31, 32, 255, 256, 257, 1000, 3000}) {
    expect_sums<uint32_t>(count, 1000);
    expect_sums<unsigned long long>(count, 1ULL << 31);
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
