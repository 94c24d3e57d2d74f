// Mirrors of another storage than the table's, and tables without fp32 masters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "averaging/replicas.h"
#include "base/random.h"
#include "kernels/encoding.h"

namespace asyncmesh::test {
namespace {

using kernels::Encoding;
using kernels::Rule;

uint16_t word_of(float value, Encoding storage) {
  return storage == Encoding::kBfloat16 ? kernels::to_bfloat16(value) : kernels::to_float16(value);
}
float float_of(uint16_t word, Encoding storage) {
  return storage == Encoding::kBfloat16 ? kernels::from_bfloat16(word)
                                        : kernels::from_float16(word);
}

std::vector<uint16_t> words_of(const std::vector<float>& values, Encoding storage) {
  std::vector<uint16_t> words;
  for (const float value : values) words.push_back(word_of(value, storage));
  return words;
}
std::vector<float> floats_of(const std::vector<uint16_t>& words, Encoding storage) {
  std::vector<float> values;
  for (const uint16_t word : words) values.push_back(float_of(word, storage));
  return values;
}

class Storages : public testing::TestWithParam<Encoding> {};
INSTANTIATE_TEST_SUITE_P(Words, Storages, testing::Values(Encoding::kBfloat16, Encoding::kFloat16),
                         [](const auto& storage) {
                           return storage.param == Encoding::kBfloat16 ? "bf16" : "fp16";
                         });

// ---- Mirrors ----------------------------------------------------------------------------------

TEST_P(Storages, AMirrorIsRefreshedToTheNearest) {
  for (const Encoding wire : {Encoding::kFloat32, Encoding::kInt8}) {
    for (const Rule rule : {Rule::kAverage, Rule::kDelta, Rule::kEma}) {
      AveragerConfig config = oracle_config(rule, 0.5, 1);
      config.encoding = wire;
      Replicas replicas(2, config, {1000, 0, 77});
      randomise(replicas, 3);
      std::vector<uint16_t> copy(1077, 0x1234);
      const Tensors views = tensors_in(copy.data(), {1000, 0, 77}, GetParam());
      const kernels::ParameterTable mirror = views;
      for (int call = 0; call < 3; ++call) {
        replicas.add(0, [](uint64_t i) { return 1e-2F * static_cast<float>(i % 3); });
        expect_all(replicas.run_all([&](uint32_t r) {
          return replicas.averager(r).call({.mirror = r == 0 ? &mirror : nullptr}, nullptr);
        }),
                   Code::kOk);
      }
      // The last call wrote the part of round 1, the one before it that of round 0.
      const std::vector<uint32_t> parts = parts_of_elements(replicas.averager(0), 0);
      for (size_t i = 0; i < copy.size(); ++i) {
        if (parts[i] == 0) {
          ASSERT_NE(copy[i], 0x1234) << i;
        } else {
          ASSERT_EQ(copy[i], word_of(replicas.weights(0)[i], GetParam())) << i;
        }
      }
    }
  }
}

// ---- Tables without masters -------------------------------------------------------------------

void randomise_words(Replicas& replicas, Encoding storage, uint64_t seed) {
  CounterRandom random(seed);
  for (uint32_t r = 0; r < replicas.size(); ++r) {
    for (uint16_t& word : replicas.words(r)) {
      word = word_of(static_cast<float>(random.uniform()), storage);
    }
  }
}

// Where masters hold what the words hold and the wire is fp32, the words become the masters'
// weights, rounded.
TEST_P(Storages, ARoundIsThatOfMastersRounded) {
  for (const Rule rule : {Rule::kAverage, Rule::kDelta, Rule::kEma}) {
    const AveragerConfig config = oracle_config(rule, 0.5, 1);
    Replicas words(3, config, {1000, 0, 77}, {.storage = GetParam()});
    Replicas masters(3, config, {1000, 0, 77});
    randomise_words(words, GetParam(), 8);
    for (int call = 0; call < 6; ++call) {
      for (uint32_t r = 0; r < 3; ++r) {
        const std::vector<float> values = floats_of(words.words(r), GetParam());
        std::copy(values.begin(), values.end(), masters.weights(r).begin());  // stays in place
      }
      words.call_all({});
      masters.call_all({});
      for (uint32_t r = 0; r < 3; ++r) {
        ASSERT_EQ(words.words(r), words_of(masters.weights(r), GetParam())) << call;
      }
    }
  }
}

TEST_P(Storages, ReplicasOfWordsComeTogetherOnEveryWire) {
  for (const Encoding wire :
       {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16, Encoding::kInt8}) {
    AveragerConfig config = oracle_config(Rule::kDelta, 0.25, 2);
    config.encoding = wire;
    Replicas replicas(2, config, {900, 33}, {.storage = GetParam()});
    randomise_words(replicas, GetParam(), 9);
    for (int call = 0; call < 40; ++call) replicas.call_all({});
    for (size_t i = 0; i < replicas.elements(); ++i) {
      EXPECT_NEAR(float_of(replicas.words(0)[i], GetParam()),
                  float_of(replicas.words(1)[i], GetParam()), 1.3 / 127);
    }
  }
}

TEST_P(Storages, FinishLeavesOneModelOfWords) {
  Replicas replicas(3, opportunistic(0.5, 1), {5000, 0, 9}, {.storage = GetParam()});
  randomise_words(replicas, GetParam(), 4);
  std::vector<std::vector<float>> before;
  for (uint32_t r = 0; r < 3; ++r) before.push_back(floats_of(replicas.words(r), GetParam()));
  expect_all(replicas.run_all([&](uint32_t r) { return replicas.averager(r).finish({}); }),
             Code::kOk);
  for (uint32_t r = 0; r < 3; ++r) EXPECT_EQ(replicas.words(r), replicas.words(0));
  for (size_t i = 0; i < 5009; ++i) {
    const float mean = (before[0][i] + before[1][i] + before[2][i]) * (1.0F / 3);
    EXPECT_NEAR(float_of(replicas.words(0)[i], GetParam()), mean, mean * 0x1p-8F + 1e-7F);
  }
}

TEST_P(Storages, MeansGoFromAnyStorageToAnyOther) {
  Replicas replicas(2, opportunistic(0.5, 1), {100}, {.payload_bytes = 64});
  const std::vector<uint16_t> in[2] = {words_of(std::vector<float>(70, 1.0F), GetParam()),
                                       words_of(std::vector<float>(70, 1.0078125F), GetParam())};
  std::vector<float> floats(140);
  std::vector<uint16_t> words(140);
  const std::vector<uint64_t> counts{3, 0, 67};
  for (const Encoding storage : {Encoding::kFloat32, GetParam()}) {
    const bool wide = kernels::lossless(storage);
    expect_all(replicas.run_all([&](uint32_t r) {
      void* const to = wide ? static_cast<void*>(&floats[70 * r]) : &words[70 * r];
      return replicas.averager(r).mean(
          tensors_in(const_cast<uint16_t*>(in[r].data()), counts, GetParam()),
          tensors_in(to, counts, storage), {});
    }),
               Code::kOk);
  }
  EXPECT_EQ(floats, std::vector<float>(140, 1.00390625F));
  EXPECT_EQ(words, words_of(floats, GetParam()));
}

TEST_P(Storages, AMeanOfWordsThatAreNotFiniteHasNoWeight) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Replicas replicas(2, opportunistic(0.5, 1), {40});
    std::vector<uint16_t> words[2];
    for (uint32_t r = 0; r < 2; ++r) {
      words[r] = words_of(std::vector<float>(40, 2.0F + static_cast<float>(r)), GetParam());
    }
    words[0][39] = word_of(bad, GetParam());
    expect_all(replicas.run_all([&](uint32_t r) {
      const Tensors table = tensors_in(words[r].data(), {40}, GetParam());
      return replicas.averager(r).mean(table, table, {});
    }),
               Code::kOk);
    EXPECT_EQ(replicas.averager(0).stats().not_finite, 1U);
    EXPECT_EQ(words[0], words_of(std::vector<float>(40, 3.0F), GetParam()));
  }
}

TEST_P(Storages, WordsMayLieClose) {
  Replicas replicas(1, opportunistic(0.5, 1), {3, 3}, {.storage = GetParam()});
  std::vector<uint16_t> words(6);
  EXPECT_TRUE(replicas.averager(0).rebind(tensors_in(words.data(), {3, 3}, GetParam())).ok());
  const Tensors tied{{{.data = words.data(), .count = 3}, {.data = words.data() + 2, .count = 3}},
                     GetParam()};
  EXPECT_EQ(replicas.averager(0).rebind(tied).code(), Code::kInvalidArgument);
  std::vector<float> floats(6);
  EXPECT_EQ(replicas.averager(0).rebind(tensors_in(floats.data(), {3, 3})).code(),
            Code::kInvalidArgument);
}

// The EMA is fp32: the state of a run with masters and of one without are the same thing.
TEST_P(Storages, StateIsExactAndOfNoStorage) {
  const AveragerConfig config = oracle_config(Rule::kEma, 0.5, 0);
  Replicas words(2, config, {40}, {.storage = GetParam()});
  randomise_words(words, GetParam(), 8);
  for (int call = 0; call < 5; ++call) words.call_all({});
  Replicas masters(2, config, {40});
  for (uint32_t r = 0; r < 2; ++r) {
    std::vector<std::byte> bytes(words.averager(r).state_bytes());
    ASSERT_TRUE(words.averager(r).save(bytes).ok());
    ASSERT_TRUE(masters.averager(r).load(bytes).ok());
    std::vector<std::byte> again(bytes.size());
    ASSERT_TRUE(masters.averager(r).save(again).ok());
    EXPECT_EQ(again, bytes);
  }
}

}  // namespace
}  // namespace asyncmesh::test
