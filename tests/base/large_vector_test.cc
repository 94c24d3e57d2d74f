#include "base/large_vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace asyncmesh {
namespace {

uintptr_t address(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

// Whether the mapping that holds `at` asked for huge pages: "hg" of its VmFlags.
bool advised(uintptr_t at) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = begin <= at && at < end;
    if (inside && line.rfind("VmFlags:", 0) == 0) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST(LargeVector, IsZeroedAndAligned) {
  for (const size_t count : {1, 1000, 1024, 500000, 524288, 3000000}) {
    const LargeVector<float> values(count);
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return v == 0; }));
    const size_t bytes = count * sizeof(float);
    const size_t alignment = bytes >= (2U << 20) ? 2U << 20 : bytes >= 4096 ? 4096 : 64;
    EXPECT_EQ(address(values.data()) % alignment, 0U) << count;
  }
}

TEST(LargeVector, AsksForHugePagesWhereOneFits) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good()) {
    GTEST_SKIP() << "no transparent huge pages here";
  }
  const LargeVector<float> large(3000000);
  EXPECT_TRUE(advised(address(large.data())));
  EXPECT_TRUE(
      advised(address(large.data() + 1 + (large.size() * sizeof(float) / 4096 - 1) * 1024)));
}

TEST(LargeVector, MovesWithoutCopyAndGrows) {
  LargeVector<float> values(1000, 2.0F);
  const float* const memory = values.data();
  LargeVector<float> moved = std::move(values);
  EXPECT_EQ(moved.data(), memory);
  moved.resize(1000000, 3.0F);
  EXPECT_EQ(moved.front(), 2.0F);
  EXPECT_EQ(moved.back(), 3.0F);
}

TEST(LargeVector, RefusesWhatCannotBe) {
  EXPECT_THROW(LargeAllocator<float>().allocate(SIZE_MAX / 2), std::bad_array_new_length);
}

}  // namespace
}  // namespace asyncmesh
