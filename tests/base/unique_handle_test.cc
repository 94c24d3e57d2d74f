#include "base/unique_handle.h"

#include <gtest/gtest.h>

#include <vector>

namespace asyncmesh {
namespace {

std::vector<int> closed;  // what was destroyed, in order

void close_number(int number) { closed.push_back(number); }

using Number = UniqueHandle<int, &close_number, -1>;

class UniqueHandleTest : public testing::Test {
 protected:
  void SetUp() override { closed.clear(); }
};

TEST_F(UniqueHandleTest, DestroysOnceAtTheEndOfItsLife) {
  { const Number number(4); }
  EXPECT_EQ(closed, std::vector<int>{4});
}

TEST_F(UniqueHandleTest, AnEmptyOneDestroysNothing) {
  {
    const Number number;
    EXPECT_FALSE(number);
  }
  EXPECT_TRUE(closed.empty());
}

TEST_F(UniqueHandleTest, MovingHandsTheDutyOver) {
  {
    Number first(1);
    Number second(std::move(first));
    Number third(3);
    third = std::move(second);
    EXPECT_EQ(closed, std::vector<int>{3});
    EXPECT_EQ(third.get(), 1);
  }
  EXPECT_EQ(closed, (std::vector<int>{3, 1}));
}

TEST_F(UniqueHandleTest, ReleaseGivesTheHandleUp) {
  Number number(5);
  EXPECT_EQ(number.release(), 5);
  number.reset();
  EXPECT_TRUE(closed.empty());
}

}  // namespace
}  // namespace asyncmesh
