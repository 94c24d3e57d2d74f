#include "lane/staging.h"

#include <gtest/gtest.h>

#include <set>

namespace asyncmesh {
namespace {

TEST(StagingPool, LendsEveryBufferOnce) {
  StagingPool pool(4, 120);
  std::set<uint32_t> buffers;
  uint32_t buffer = 0;
  while (pool.claim(&buffer)) buffers.insert(buffer);
  EXPECT_EQ(buffers.size(), 4U);
  EXPECT_FALSE(pool.available());
}

TEST(StagingPool, BuffersAreAlignedAndDisjointWithinItsMemory) {
  StagingPool pool(4, 120);
  for (uint32_t buffer = 0; buffer < 4; ++buffer) {
    EXPECT_EQ(pool.data(buffer), pool.memory().data() + size_t{buffer} * 128 + 8);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.data(buffer)) % 64, 8U);
  }
  EXPECT_EQ(pool.memory().size(), 4U * 128);
}

TEST(StagingPool, AnUnclaimedBufferIsTheNextOneLent) {
  StagingPool pool(4, 56);
  uint32_t first = 0;
  uint32_t second = 0;
  ASSERT_TRUE(pool.claim(&first));
  pool.unclaim(first);
  ASSERT_TRUE(pool.claim(&second));
  EXPECT_EQ(first, second);
}

TEST(StagingPool, ABufferIsFreeWhenEveryLaneDroppedIt) {
  StagingPool pool(1, 56);
  uint32_t buffer = 0;
  ASSERT_TRUE(pool.claim(&buffer));
  pool.retain_st(buffer, 3);
  pool.drop_st(buffer);
  pool.drop_st(buffer);
  EXPECT_FALSE(pool.available());
  pool.drop_st(buffer);
  EXPECT_TRUE(pool.available());
}

TEST(StagingPool, ABufferForNoLaneIsFreeAtOnce) {
  StagingPool pool(1, 56);
  uint32_t buffer = 0;
  ASSERT_TRUE(pool.claim(&buffer));
  pool.retain_st(buffer, 0);
  EXPECT_TRUE(pool.available());
}

TEST(StagingPool, OfNoBuffersLendsNothing) {
  StagingPool pool(0, 56);
  uint32_t buffer = 0;
  EXPECT_FALSE(pool.claim(&buffer));
  EXPECT_TRUE(pool.memory().empty());
}

}  // namespace
}  // namespace asyncmesh
