#include <gtest/gtest.h>

#include <random>

#include "kernels/cpu/thread_team.h"
#include "kernels/kernels.h"
#include "tests/kernels/every_target.h"
#include "tests/kernels/reference_quantise.h"
#include "tests/kernels/reference_selection.h"

namespace asyncmesh::kernels {
namespace {

using reference::StoredTable;

constexpr Encoding kStorages[] = {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16};
constexpr Encoding kEncodings[] = {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16,
                                   Encoding::kInt8, Encoding::kInt4};

// A table of random values, and some of its indices.
class IndexValues : public testing::Test {
 protected:
  struct Case {
    Case(uint64_t elements, Encoding storage, uint64_t seed)
        : w(reference::shapes(elements, seed), storage) {}
    StoredTable w;
    std::vector<uint32_t> indices;
  };

  void fill(Case& made, double share) {
    std::uniform_real_distribution<double> uniform;
    for (uint32_t i = 0; i < made.w.elements(); ++i) {
      made.w.set(i, normal_(generator_));
      if (uniform(generator_) < share) made.indices.push_back(i);
    }
  }
  std::vector<float> normals(uint64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = normal_(generator_);
    return values;
  }
  // body(case) for sizes and densities of all kinds.
  template <class Body>
  void for_each_case(Encoding storage, const Body& body) {
    uint64_t seed = 0;
    for (const uint64_t elements : {0, 1, 100, 5000, 120000}) {
      for (const double share : {0.0, 0.01, 0.3, 1.0}) {
        Case made(elements, storage, ++seed);
        fill(made, share);
        body(made);
      }
    }
  }

  std::mt19937_64 generator_{1};
  std::normal_distribution<float> normal_;
};

TEST_F(IndexValues, PackGathersAndEncodes) {
  for (const Encoding storage : kStorages) {
    for_each_case(storage, [&](const Case& made) {
      std::vector<float> values;
      for (const uint32_t index : made.indices) values.push_back(made.w.get(index));
      for (const Encoding encoding : kEncodings) {
        for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
          const Wire wire = {encoding, rounding, 99};
          const auto expected = reference::quantised(values.data(), values.size(), wire, 0);
          std::vector<std::byte> encoded(expected.size() + 1, std::byte{0x77});
          cpu().index_pack(made.w.table(), made.indices.data(), made.indices.size(), wire, {},
                           encoded.data(), {});
          EXPECT_EQ(encoded.back(), std::byte{0x77});
          encoded.pop_back();
          ASSERT_TRUE(same_bits(encoded, expected));
        }
      }
    });
  }
}

TEST_F(IndexValues, FeedbackSendsDifferencesAndAdvancesTheReference) {
  for (const Encoding storage : kStorages) {
    for_each_case(storage, [&](const Case& made) {
      const auto before = normals(made.w.elements());
      std::vector<float> values;
      for (const uint32_t index : made.indices) {
        values.push_back(made.w.get(index) - before[index]);
      }
      for (const Encoding encoding : kEncodings) {
        const Wire wire = {encoding, Rounding::kNearest, 0};
        const auto expected = reference::quantised(values.data(), values.size(), wire, 0);
        auto after = before;
        for (size_t i = 0; i < values.size(); ++i) {
          after[made.indices[i]] += reference::dequantised(expected.data(), encoding, i);
        }
        for (const uint32_t threads : {1, 3}) {
          ThreadTeam team(threads);
          auto reference = before;
          std::vector<std::byte> encoded(expected.size());
          cpu().index_pack(made.w.table(), made.indices.data(), made.indices.size(), wire,
                           {reference.data()}, encoded.data(), {&team});
          ASSERT_TRUE(same_bits(encoded, expected));
          ASSERT_TRUE(same_bits(reference, after));
        }
      }
    });
  }
}

// What was sent so far plus what is left to send is the whole change, in every round.
TEST_F(IndexValues, FeedbackLosesNothing) {
  constexpr uint64_t kElements = 20000, kSent = kElements / 20;
  Case made(kElements, Encoding::kFloat32, 5);
  fill(made, 0);
  auto reference = normals(kElements);
  std::vector<double> base(reference.begin(), reference.end()), sent(kElements, 0);
  std::vector<std::byte> workspace(cpu().top_change_workspace(kElements, kSent) + 256);
  auto* const aligned =
      workspace.data() + 256 - reinterpret_cast<uintptr_t>(workspace.data()) % 256;
  Threshold threshold;
  for (uint64_t round = 0; round < 30; ++round) {
    const Encoding encoding = kEncodings[round % std::size(kEncodings)];
    const Wire wire = {encoding, Rounding::kStochastic, round};
    std::vector<uint32_t> indices(kSent);
    cpu().top_change({made.w.table(), reference.data()}, kSent, &threshold, indices.data(), aligned,
                     {});
    std::vector<std::byte> encoded(encoded_bytes(encoding, kSent));
    cpu().index_pack(made.w.table(), indices.data(), kSent, wire, {reference.data()},
                     encoded.data(), {});
    for (uint64_t i = 0; i < kSent; ++i) {
      sent[indices[i]] += static_cast<double>(reference::dequantised(encoded.data(), encoding, i));
    }
    for (uint64_t i = 0; i < kElements; ++i) {
      const double w = made.w.get(i), left = w - static_cast<double>(reference[i]);
      ASSERT_NEAR(sent[i] + left, w - base[i], 1e-6 * static_cast<double>(round + 1));
      made.w.set(i, made.w.get(i) + 0.01F * normal_(generator_));
    }
  }
}

TEST_F(IndexValues, UnpackWritesTheValuesAndNothingElse) {
  for (const Encoding storage : kStorages) {
    for_each_case(storage, [&](Case& made) {
      const auto values = normals(made.indices.size());
      for (const Encoding encoding : kEncodings) {
        const auto encoded = reference::quantised(values.data(), values.size(), {encoding}, 0);
        StoredTable expected(reference::shapes(made.w.elements(), 0), storage);
        std::vector<float> after(made.w.elements());
        for (uint64_t i = 0; i < after.size(); ++i) after[i] = made.w.get(i);
        for (size_t i = 0; i < values.size(); ++i) {
          const float value = reference::dequantised(encoded.data(), encoding, i);
          after[made.indices[i]] = reference::stored(value, storage);
        }
        cpu().index_unpack(made.w.table(), made.indices.data(), made.indices.size(), encoding,
                           encoded.data(), {});
        for (uint64_t i = 0; i < after.size(); ++i) {
          ASSERT_EQ(bits_of(made.w.get(i)), bits_of(after[i])) << i;
        }
      }
    });
  }
}

TEST_F(IndexValues, AccumulateAddsWeightedValues) {
  constexpr float kWeight = 0.3F;
  ThreadTeam team(2);
  for (const Encoding storage : kStorages) {
    for_each_case(storage, [&](Case& made) {
      const auto values = normals(made.indices.size());
      for (const Encoding encoding : kEncodings) {
        const auto encoded = reference::quantised(values.data(), values.size(), {encoding}, 0);
        std::vector<float> after(made.w.elements());
        for (uint64_t i = 0; i < after.size(); ++i) after[i] = made.w.get(i);
        for (size_t i = 0; i < values.size(); ++i) {
          const float term = kWeight * reference::dequantised(encoded.data(), encoding, i);
          float& value = after[made.indices[i]];
          value = reference::stored(value + term, storage);
        }
        cpu().index_accumulate(made.w.table(), made.indices.data(), made.indices.size(), encoding,
                               encoded.data(), kWeight, {&team});
        for (uint64_t i = 0; i < after.size(); ++i) {
          ASSERT_EQ(bits_of(made.w.get(i)), bits_of(after[i])) << i;
        }
      }
    });
  }
}

TEST_F(IndexValues, TouchesNothingBetweenTensors) {
  Case made(20000, Encoding::kFloat16, 8);
  fill(made, 1.0);
  const auto values = normals(made.indices.size());
  std::vector<std::byte> encoded(encoded_bytes(Encoding::kInt8, values.size()));
  cpu().quantise(values.data(), values.size(), {Encoding::kInt8}, 0, encoded.data(), {});
  const uint64_t count = made.indices.size();
  cpu().index_unpack(made.w.table(), made.indices.data(), count, Encoding::kInt8, encoded.data(),
                     {});
  const TensorView* tensors = made.w.table().tensors;
  for (uint32_t t = 0; t < made.w.table().size; ++t) {
    const auto* end = static_cast<const std::byte*>(tensors[t].data) + tensors[t].count * 2;
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(end[i], std::byte{0});
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
