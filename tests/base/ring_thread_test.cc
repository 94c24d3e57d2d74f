#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/mpsc_ring.h"
#include "base/spsc_ring.h"

namespace asyncmesh {
namespace {

struct Item {
  uint32_t producer = 0;
  uint32_t number = 0;
  uint64_t check = 0;  // of both: a torn item shows
};

Item make_item(uint32_t producer, uint32_t number) {
  return {producer, number, (uint64_t{producer} << 32 | number) * 0x9E3779B97F4A7C15ULL};
}

template <typename Ring>
void produce(Ring& ring, uint32_t producer, uint32_t items) {
  for (uint32_t i = 0; i < items; ++i) {
    while (!ring.push(make_item(producer, i))) std::this_thread::yield();
  }
}

template <typename Ring>
void expect_all_in_order(Ring& ring, uint32_t producers, uint32_t items) {
  std::vector<uint32_t> next(producers, 0);
  for (uint64_t seen = 0; seen < uint64_t{producers} * items;) {
    Item item;
    if (!ring.pop(&item)) {
      std::this_thread::yield();
      continue;
    }
    ++seen;
    ASSERT_LT(item.producer, producers);
    ASSERT_EQ(item.number, next[item.producer]++);
    ASSERT_EQ(item.check, make_item(item.producer, item.number).check);
  }
  EXPECT_TRUE(ring.empty());
}

TEST(SpscRing, HandsEveryItemOverInOrderBetweenTwoThreads) {
  constexpr uint32_t kItems = 200'000;
  SpscRing<Item> ring(64);
  std::thread producer([&] { produce(ring, 0, kItems); });
  expect_all_in_order(ring, 1, kItems);
  producer.join();
}

TEST(MpscRing, HandsEveryItemOverOnceAndInOrderPerProducer) {
  constexpr uint32_t kItems = 50'000;
  MpscRing<Item> ring(16);
  std::array<std::thread, 3> producers;
  for (uint32_t i = 0; i < 3; ++i) {
    producers[i] = std::thread([&ring, i] { produce(ring, i, kItems); });
  }
  expect_all_in_order(ring, 3, kItems);
  for (std::thread& producer : producers) producer.join();
}

}  // namespace
}  // namespace asyncmesh
