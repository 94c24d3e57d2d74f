#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "kernels/cpu/thread_team.h"
#include "kernels/kernels.h"
#include "tests/kernels/every_target.h"
#include "tests/kernels/reference_selection.h"

namespace asyncmesh::kernels {
namespace {

// Indices with gaps below `gap`.
std::vector<uint32_t> ascending(uint64_t count, uint32_t gap, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<uint32_t> indices;
  uint64_t next = generator() % gap;
  for (uint64_t i = 0; i < count && next < kMaxSelectable; ++i) {
    indices.push_back(static_cast<uint32_t>(next));
    next += 1 + generator() % gap;
  }
  return indices;
}

std::vector<std::byte> encode(const std::vector<uint32_t>& indices, Workers* workers = nullptr) {
  std::vector<uint32_t> words(index_stream_bound(indices.size()) / 4);  // aligned to 4
  uint64_t bytes = 0;
  auto* const stream = reinterpret_cast<std::byte*>(words.data());
  cpu().encode_indices(indices.data(), indices.size(), stream, &bytes, {workers});
  EXPECT_LE(bytes, index_stream_bound(indices.size()));
  return {stream, stream + bytes};
}

struct Decoded {
  uint32_t valid;
  std::vector<uint32_t> indices;
};

// From memory that ends with the stream, so that AddressSanitizer sees what is read beyond it.
Decoded decode(const std::vector<std::byte>& stream, uint64_t count, uint64_t elements,
               Workers* workers = nullptr) {
  const std::unique_ptr<std::byte[]> exact(new std::byte[stream.size()]);
  std::copy(stream.begin(), stream.end(), exact.get());
  Decoded decoded = {2, std::vector<uint32_t>(count)};
  cpu().decode_indices(exact.get(), stream.size(), count, elements, decoded.indices.data(),
                       &decoded.valid, {workers});
  return decoded;
}

TEST(IndexStream, ComesBackAsItWas) {
  for (const uint64_t count : {0, 1, 2, 127, 128, 129, 255, 256, 257, 1000, 100000}) {
    for (const uint32_t gap : {1U, 2U, 3U, 40U, 3000U, 1U << 20, 1U << 31}) {
      const auto indices = ascending(count, gap, count + gap);
      const auto stream = encode(indices);
      const uint64_t elements = indices.empty() ? 0 : indices.back() + uint64_t{1};
      on_every_target([&] {
        ASSERT_TRUE(same_bits(encode(indices), stream));
        const Decoded back = decode(stream, indices.size(), elements);
        ASSERT_EQ(back.valid, 1U) << count << " " << gap;
        ASSERT_EQ(back.indices, indices);
      });
      if (indices.empty()) continue;
      ASSERT_EQ(reference::decoded(stream, indices.size(), elements), indices);
      EXPECT_EQ(decode(stream, indices.size(), elements - 1).valid, 0U);
    }
  }
}

TEST(IndexStream, IsTheSameWhateverTheThreads) {
  const auto indices = ascending(200000, 100, 1);
  const auto stream = encode(indices);
  for (const uint32_t threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    EXPECT_TRUE(same_bits(encode(indices, &team), stream));
    const Decoded back = decode(stream, indices.size(), kMaxSelectable, &team);
    EXPECT_EQ(back.valid, 1U);
    EXPECT_EQ(back.indices, indices);
    EXPECT_EQ(decode(stream, indices.size(), indices.back(), &team).valid, 0U);
  }
}

TEST(IndexStream, HasTheseBytes) {
  // Gaps 0, 2, 0, 5: three bits each; then one block of a single index.
  std::vector<uint32_t> indices = {7, 10, 11, 17};
  for (uint32_t i = 0; i < 124; ++i) indices.push_back(18 + i);
  indices.push_back(0x12345678);
  const auto stream = encode(indices);
  std::vector<uint32_t> words(stream.size() / 4);
  std::memcpy(words.data(), stream.data(), stream.size());
  std::vector<uint32_t> expected = {7, 12, 0x12345678, 12, 2U << 3 | 5U << 9};
  expected.resize(4 + 12);
  EXPECT_EQ(words, expected);
}

TEST(IndexStream, OfNothingIsEmpty) {
  EXPECT_TRUE(encode({}).empty());
  EXPECT_EQ(decode({}, 0, 0).valid, 1U);
  EXPECT_EQ(decode(std::vector<std::byte>(8), 0, 10).valid, 0U);
  EXPECT_EQ(decode({}, 1, 10).valid, 0U);
}

TEST(IndexStream, RefusesMoreIndicesThanAreSelectable) {
  uint32_t valid = 2;
  const std::vector<std::byte> stream(64);
  cpu().decode_indices(stream.data(), stream.size(), UINT64_MAX, UINT64_MAX, nullptr, &valid, {});
  EXPECT_EQ(valid, 0U);
}

TEST(IndexStream, RefusesEveryTruncation) {
  const auto indices = ascending(300, 50, 2);
  const auto stream = encode(indices);
  for (size_t bytes = 0; bytes < stream.size(); ++bytes) {
    const std::vector<std::byte> cut(stream.begin(),
                                     stream.begin() + static_cast<ptrdiff_t>(bytes));
    ASSERT_EQ(decode(cut, indices.size(), kMaxSelectable).valid, 0U) << bytes;
  }
}

// Hostile bytes: what is taken is what the format says, and always ascending and in range.
TEST(IndexStream, TakesMutatedBytesOnlyWhenTheyAreAStream) {
  std::mt19937_64 generator(3);
  uint64_t taken = 0;
  for (int round = 0; round < 20000; ++round) {
    const uint64_t count = 1 + generator() % 400;
    const auto indices =
        ascending(count, 1 + static_cast<uint32_t>(generator() % 300), generator());
    auto stream = encode(indices);
    for (uint64_t i = generator() % 4; i != 0; --i) {
      const uint64_t header = 8 * ((count + 127) / 128);
      const uint64_t at = generator() % (generator() % 2 == 0 ? header : stream.size());
      stream[at] ^= static_cast<std::byte>(uint64_t{1} << generator() % 8);
    }
    if (generator() % 8 == 0) stream.resize(generator() % (stream.size() + 64));
    const uint64_t claimed = generator() % 8 == 0 ? 1 + generator() % 400 : count;
    const uint64_t elements = generator() % 8 == 0 ? generator() % 100000 : kMaxSelectable;
    const auto expected = reference::decoded(stream, claimed, elements);
    const Decoded got = decode(stream, claimed, elements);
    ASSERT_EQ(got.valid, expected.empty() ? 0U : 1U) << round;
    if (expected.empty()) continue;
    ASSERT_EQ(got.indices, expected) << round;
    ++taken;
  }
  EXPECT_GT(taken, 1000U);
}

TEST(IndexStream, TakesNoiseOnlyWhenItIsAStream) {
  std::mt19937_64 generator(4);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> noise(generator() % 600);
    // Small words now and then, which look like ends.
    for (size_t i = 0; i < noise.size(); ++i) {
      noise[i] = static_cast<std::byte>(i % 4 == 0 ? generator() & 0x3C : generator() % 50 == 0);
    }
    const uint64_t count = 1 + generator() % 300;
    const auto expected = reference::decoded(noise, count, kMaxSelectable);
    const Decoded got = decode(noise, count, kMaxSelectable);
    ASSERT_EQ(got.valid, expected.empty() ? 0U : 1U) << round;
    if (!expected.empty()) {
      ASSERT_EQ(got.indices, expected);
    }
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
