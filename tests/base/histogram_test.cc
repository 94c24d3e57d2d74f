#include "base/histogram.h"

#include <gtest/gtest.h>

namespace asyncmesh {
namespace {

TEST(Histogram, PutsPowersOfTwoIntoTheirOwnBuckets) {
  Histogram histogram;
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4}, UINT64_MAX}) {
    histogram.add(value);
  }
  EXPECT_EQ(histogram.buckets()[0], 1U);
  EXPECT_EQ(histogram.buckets()[1], 1U);
  EXPECT_EQ(histogram.buckets()[2], 2U);
  EXPECT_EQ(histogram.buckets()[3], 1U);
  EXPECT_EQ(histogram.buckets()[64], 1U);
  EXPECT_EQ(histogram.count(), 6U);
}

TEST(Histogram, QuantilesAreExactWithinAFactorOfTwo) {
  Histogram histogram;
  for (uint64_t value = 1; value <= 1000; ++value) histogram.add(value);
  EXPECT_GE(histogram.quantile(0.5), 500U);
  EXPECT_LE(histogram.quantile(0.5), 1000U);
  EXPECT_EQ(histogram.quantile(1.0), 1000U);
  EXPECT_EQ(histogram.quantile(0.0), 1U);
  EXPECT_EQ(histogram.largest(), 1000U);
  EXPECT_EQ(histogram.sum(), 500'500U);
}

TEST(Histogram, OfNothingIsZero) { EXPECT_EQ(Histogram().quantile(0.99), 0U); }

TEST(Histogram, MergeAddsUp) {
  Histogram a;
  Histogram b;
  a.add(3);
  b.add(100);
  a.merge(b);
  EXPECT_EQ(a.count(), 2U);
  EXPECT_EQ(a.sum(), 103U);
  EXPECT_EQ(a.largest(), 100U);
}

}  // namespace
}  // namespace asyncmesh
