#include <gtest/gtest.h>

#include "base/mpsc_ring.h"
#include "base/spsc_ring.h"

namespace asyncmesh {
namespace {

template <typename Ring>
class BoundedRing : public testing::Test {};
using Rings = testing::Types<SpscRing<int>, MpscRing<int>>;
TYPED_TEST_SUITE(BoundedRing, Rings);

TYPED_TEST(BoundedRing, RoundsCapacityUpToAPowerOfTwo) {
  EXPECT_EQ(TypeParam(0).capacity(), 2U);
  EXPECT_EQ(TypeParam(4).capacity(), 4U);
  EXPECT_EQ(TypeParam(5).capacity(), 8U);
}

TYPED_TEST(BoundedRing, PopLeavesTheOutputAloneWhenEmpty) {
  TypeParam ring(4);
  int value = 7;
  EXPECT_TRUE(ring.empty());
  EXPECT_FALSE(ring.pop(&value));
  EXPECT_EQ(value, 7);
}

TYPED_TEST(BoundedRing, PushFailsWhenFullAndWorksAgainAfterAPop) {
  TypeParam ring(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
  EXPECT_FALSE(ring.push(4));
  int value = -1;
  ASSERT_TRUE(ring.pop(&value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(ring.push(4));
  EXPECT_FALSE(ring.push(5));
}

TYPED_TEST(BoundedRing, KeepsOrderOverManyLapsAtEveryFill) {
  for (int fill = 1; fill <= 4; ++fill) {
    TypeParam ring(4);
    int pushed = 0;
    int popped = 0;
    for (int lap = 0; lap < 100; ++lap) {
      for (int i = 0; i < fill; ++i) ASSERT_TRUE(ring.push(pushed++));
      EXPECT_FALSE(ring.empty());
      for (int i = 0; i < fill; ++i) {
        int value = -1;
        ASSERT_TRUE(ring.pop(&value));
        ASSERT_EQ(value, popped++);
      }
      EXPECT_TRUE(ring.empty());
    }
  }
}

}  // namespace
}  // namespace asyncmesh
