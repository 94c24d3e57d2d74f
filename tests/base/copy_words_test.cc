#include "base/copy_words.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace asyncmesh {
namespace {

struct Words {
  uint64_t first = 0;
  uint32_t low = 0, high = 0;
  std::array<uint64_t, 40> rest{};
};
struct Odd {
  uint32_t a = 0, b = 0, c = 0;
};

TEST(CopyWords, CopiesAllOfAValue) {
  Words from{1, 2, 3, {}};
  for (size_t i = 0; i < from.rest.size(); ++i) from.rest[i] = 100 + i;
  Words to;
  copy_words(to, from);
  EXPECT_EQ(to.first, 1U);
  EXPECT_EQ(to.low, 2U);
  EXPECT_EQ(to.high, 3U);
  EXPECT_EQ(to.rest, from.rest);
}

TEST(CopyWords, CopiesWhatDoesNotConsistOfWords) {
  Odd to;
  copy_words(to, Odd{1, 2, 3});
  EXPECT_EQ(to.a + 10 * to.b + 100 * to.c, 321U);
}

TEST(CopyWords, StaysWithinTheBytesGiven) {
  const std::array<uint64_t, 3> from{1, 2, 3};
  std::array<uint64_t, 3> to{};
  copy_words(to.data(), from.data(), 16);
  EXPECT_EQ(to, (std::array<uint64_t, 3>{1, 2, 0}));
}

}  // namespace
}  // namespace asyncmesh
