// Values at explicit indices and index streams of cuda() against those of cpu(), bitwise.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

using backend::Array;
using backend::finish;
using backend::kEncodings;
using backend::kStorages;
using backend::Layout;
using backend::random_values;
using backend::same_bits;

// About one in `every` of the elements.
Array<uint32_t> some_of(uint64_t elements, uint32_t every, uint64_t seed) {
  backend::Random random(seed);
  Array<uint32_t> indices;
  for (uint64_t i = 0; i < elements; ++i) {
    if (random.below(every) == 0) indices.push_back(static_cast<uint32_t>(i));
  }
  return indices;
}

std::vector<uint64_t> few_counts() { return {5, 0, 640, 1, 4999, 64, 300}; }

struct Tensors {
  const char* name;
  std::vector<uint64_t> (*counts)();
  uint32_t every;
};
void PrintTo(const Tensors& tensors, std::ostream* out) { *out << tensors.name; }

const Tensors kTensors[] = {{"all", few_counts, 1},
                            {"some", few_counts, 5},
                            {"many", backend::many_counts, 7},
                            {"none", few_counts, UINT32_MAX}};

class CudaIndex : public testing::TestWithParam<std::tuple<Tensors, Encoding>> {
 protected:
  void expect_pack_like_the_cpu(const Wire& wire, bool with_feedback) {
    Array<std::byte> bytes(encoded_bytes(wire.encoding, indices_.size()) + 1, std::byte{0xAB});
    auto expected = bytes;
    auto reference = random_values(table_.elements(), 8), expected_reference = reference;
    const auto pack = [&](const Table& kernels, Array<std::byte>& out, Array<float>& known) {
      kernels.index_pack(table_.view(), indices_.data(), indices_.size(), wire,
                         {with_feedback ? known.data() : nullptr}, out.data(), {});
    };
    pack(cpu(), expected, expected_reference);
    pack(*cuda(), bytes, reference);
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(bytes, expected)) << static_cast<int>(wire.encoding);
    EXPECT_TRUE(same_bits(reference, expected_reference)) << static_cast<int>(wire.encoding);
  }

  backend::Table table_{std::get<0>(GetParam()).counts(), 64, std::get<1>(GetParam()), Layout::kOdd,
                        6};
  Array<uint32_t> indices_ = some_of(table_.elements(), std::get<0>(GetParam()).every, 7);
};

TEST_P(CudaIndex, PackLikeTheCpu) {
  for (const Encoding encoding : kEncodings) {
    expect_pack_like_the_cpu({encoding}, false);
    expect_pack_like_the_cpu({encoding}, true);
    expect_pack_like_the_cpu({encoding, Rounding::kStochastic, 5}, true);
  }
}

TEST_P(CudaIndex, UnpackAndAccumulateLikeTheCpu) {
  const auto values = random_values(indices_.size(), 9);
  for (const Encoding encoding : kEncodings) {
    Array<std::byte> bytes(encoded_bytes(encoding, values.size()));
    cpu().quantise(values.data(), values.size(), {encoding}, 0, bytes.data(), {});
    backend::Table table(table_), expected(table_);
    const auto change = [&](const Table& kernels, const backend::Table& target) {
      kernels.index_accumulate(target.view(), indices_.data(), indices_.size(), encoding,
                               bytes.data(), 0.3F, {});
    };
    change(cpu(), expected);
    change(*cuda(), table);
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(table.bytes(), expected.bytes()));
    const auto replace = [&](const Table& kernels, const backend::Table& target) {
      kernels.index_unpack(target.view(), indices_.data(), indices_.size(), encoding, bytes.data(),
                           {});
    };
    replace(cpu(), expected);
    replace(*cuda(), table);
    ASSERT_EQ(finish(), "");
    EXPECT_TRUE(same_bits(table.bytes(), expected.bytes()));
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, CudaIndex,
                         testing::Combine(testing::ValuesIn(kTensors),
                                          testing::ValuesIn(kStorages)));

// What decode_indices says of a stream, on both; valid only if both say so.
bool decodes_like_the_cpu(const Array<std::byte>& stream, uint64_t count, uint64_t elements,
                          Array<uint32_t>& indices) {
  Array<uint32_t> valid(1, 7), expected_valid(1, 7);
  indices.assign(count, 0xABABABABU);
  auto expected = indices;
  cpu().decode_indices(stream.data(), stream.size(), count, elements, expected.data(),
                       expected_valid.data(), {});
  cuda()->decode_indices(stream.data(), stream.size(), count, elements, indices.data(),
                         valid.data(), {});
  EXPECT_EQ(finish(), "");
  EXPECT_EQ(valid[0], expected_valid[0]);
  if (valid[0] == 1 && expected_valid[0] == 1) {
    EXPECT_TRUE(same_bits(indices, expected));
  }
  return valid[0] == 1;
}

Array<std::byte> encoded(const Table& kernels, const Array<uint32_t>& indices) {
  Array<std::byte> stream(index_stream_bound(indices.size()), std::byte{0xCD});
  Array<uint64_t> bytes(1, ~0ULL);
  kernels.encode_indices(indices.data(), indices.size(), stream.data(), bytes.data(), {});
  EXPECT_EQ(finish(), "");
  EXPECT_LE(bytes[0], stream.size());
  stream.resize(bytes[0]);
  return stream;
}

class CudaIndexStream : public testing::TestWithParam<uint64_t> {};

// The number of indices; gaps of every width among them.
Array<uint32_t> ascending(uint64_t count, uint64_t seed) {
  backend::Random random(seed);
  Array<uint32_t> indices(count);
  uint32_t next = random.below(100), widest = 1;
  for (uint64_t i = 0; i < count; ++i) {
    if (i % kIndexBlock == 0) widest = 1U << random.below(count < 2000 ? 20 : 12);
    next += 1 + random.below(widest);
    indices[i] = next;
  }
  if (count != 0 && count % 2 != 0) indices[count - 1] = 0x7FFFFFFFU;
  return indices;
}

TEST_P(CudaIndexStream, EncodesAndDecodesLikeTheCpu) {
  const auto indices = ascending(GetParam(), GetParam());
  const auto stream = encoded(*cuda(), indices);
  EXPECT_TRUE(same_bits(stream, encoded(cpu(), indices)));
  Array<uint32_t> decoded;
  EXPECT_TRUE(decodes_like_the_cpu(stream, indices.size(), kMaxSelectable, decoded));
  EXPECT_TRUE(same_bits(decoded, indices));
  if (indices.empty()) return;
  EXPECT_TRUE(decodes_like_the_cpu(stream, indices.size(), indices.back() + 1ULL, decoded));
  EXPECT_FALSE(decodes_like_the_cpu(stream, indices.size(), indices.back(), decoded));
}

// The last is more blocks than a piece of the scan has.
INSTANTIATE_TEST_SUITE_P(Counts, CudaIndexStream,
                         testing::Values(0, 1, 2, 127, 128, 129, 255, 257, 1000, 5001, 40000));

TEST(CudaIndexStreams, ARunOfConsecutiveIndicesTakesHeadersOnly) {
  Array<uint32_t> indices(1000);
  for (uint32_t i = 0; i < 1000; ++i) indices[i] = i;
  EXPECT_EQ(encoded(*cuda(), indices).size(), 64U);
}

TEST(CudaIndexStreams, AnythingElseIsRejectedLikeOnTheCpu) {
  const auto indices = ascending(700, 3);
  const auto stream = encoded(cpu(), indices);
  Array<uint32_t> decoded;
  const auto decodes = [&](const Array<std::byte>& bytes, uint64_t count) {
    return decodes_like_the_cpu(bytes, count, 1 << 24, decoded);
  };
  EXPECT_TRUE(decodes(stream, 700));
  for (const uint64_t count : {0, 1, 500, 640, 769, 10000}) EXPECT_FALSE(decodes(stream, count));
  for (const size_t size : {size_t{0}, size_t{3}, size_t{40}, stream.size() - 4}) {
    EXPECT_FALSE(decodes({stream.begin(), stream.begin() + size}, 700));
  }
  backend::Random random(4);
  for (int i = 0; i < 300;
       ++i) {  // one bit flipped, mostly in the headers: any verdict, but the same
    auto flipped = stream;
    const auto byte = random.below(static_cast<uint32_t>(i % 3 == 0 ? stream.size() : 48));
    flipped[byte] ^= static_cast<std::byte>(1U << random.below(8));
    decodes(flipped, 700);
  }
  for (int i = 0; i < 100; ++i) {
    Array<std::byte> noise(48 + 4 * random.below(200));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(i % 2 == 0 ? 256 : 2));
    decodes(noise, 700);
  }
}

TEST(CudaIndexStreams, WordsBeyondTheStreamAreNotRead) {  // AddressSanitizer looks on
  const uint32_t words[] = {0, 128, 5000, 128, 1, 2, 3, 4};
  Array<std::byte> stream(sizeof(words));
  memcpy(stream.data(), words, sizeof(words));
  Array<uint32_t> decoded;
  EXPECT_FALSE(decodes_like_the_cpu(stream, 200, 1 << 24, decoded));
}

}  // namespace
}  // namespace asyncmesh::kernels
