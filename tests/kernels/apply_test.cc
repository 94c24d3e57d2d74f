#include <gtest/gtest.h>

#include <cmath>

#include "kernels/element.h"
#include "kernels/kernels.h"
#include "tests/kernels/random_table.h"

namespace asyncmesh::kernels {
namespace {

// One round on a random table, and what the definition in kernels.h makes of it.
class Apply : public testing::TestWithParam<std::tuple<uint32_t, Rule, Encoding>> {
 protected:
  Apply()
      : table_(awkward_counts(), std::get<0>(GetParam()), 11),
        mirror_(awkward_counts(), std::get<0>(GetParam()), 12),
        ema_(table_.random_values(table_.elements())),
        visited_((table_.blocks() + 63) / 64, 0) {
    args_.rule = std::get<1>(GetParam());
    args_.momentum = 0.75F;
    args_.scale = 0.9F;
  }

  void start_round(const Subset& subset) {
    count_ = cpu().subset_elements(table_.table(), subset);
    snapshot_.resize(count_);
    own_.resize(encoded_bytes(encoding_, count_));
    cpu().partition_pack(table_.table(), subset, {encoding_}, snapshot_.data(), own_.data(), {});
    mean_ = table_.random_values(count_);
    table_.randomise();
  }

  // From the definition, before the kernel runs.
  void expect(const Subset& subset) {
    expected_w_ = table_.storage();
    expected_ema_ = ema_;
    std::vector<float> own(count_);
    cpu().dequantise(own_.data(), count_, encoding_, own.data(), {});
    const auto elements = table_.elements_of(subset);
    for (size_t i = 0; i < elements.size(); ++i) {
      const Element& element = elements[i];
      const float x = table_.at(element), drift = x - snapshot_[i];
      const float a = lossless(encoding_) ? mean_[i] : lossy_target(snapshot_[i], mean_[i], own[i]);
      const bool first = (visited_[element.block / 64] >> (element.block % 64) & 1) == 0;
      float w = a;
      if (args_.rule == Rule::kDelta) {
        w = corrected({0, 0, args_.scale}, a, drift);
      } else if (args_.rule == Rule::kEma) {
        const float gain = 1.0F - args_.momentum;
        float& e = expected_ema_[element.flat];
        e = first ? (args_.first_visit_full ? drift : gain * drift)
                  : ema_next({args_.momentum, gain, 1}, e, drift);
        w = corrected({0, 0, args_.scale}, a, e);
      }
      expected_w_[static_cast<size_t>(&table_.at(element) - table_.storage().data())] = w;
    }
  }

  void apply(const Subset& subset, const ParameterTable* mirror) {
    const bool ema = args_.rule == Rule::kEma;
    ApplyArrays arrays;
    arrays.snapshot = snapshot_.data();
    arrays.mean = mean_.data();
    arrays.own = lossless(encoding_) ? nullptr : own_.data();
    arrays.encoding = encoding_;
    arrays.ema = ema ? ema_.data() : nullptr;
    arrays.visited = ema ? visited_.data() : nullptr;
    arrays.mirror = mirror;
    cpu().apply(table_.table(), subset, args_, arrays, {});
  }

  Encoding encoding_ = std::get<2>(GetParam());
  RandomTable table_, mirror_;
  ApplyArgs args_;
  std::vector<float> ema_;
  std::vector<uint64_t> visited_;
  uint64_t count_ = 0;
  std::vector<float> snapshot_, mean_, expected_w_, expected_ema_;
  std::vector<std::byte> own_;
};

TEST_P(Apply, FollowsTheDefinitionAndTouchesNothingElse) {
  for (const bool full : {true, false, true}) {  // the third time, blocks have been visited
    args_.first_visit_full = full;
    const Subset subset = table_.subset(full ? 5 : 6, 4, 1);
    start_round(subset);
    expect(subset);
    apply(subset, nullptr);
    EXPECT_EQ(table_.storage(), expected_w_);
    EXPECT_EQ(ema_, expected_ema_);
  }
}

TEST_P(Apply, StopsAtTheLimit) {
  for (const uint64_t limit : {table_.blocks() / 5, uint64_t{0}}) {
    const Subset subset = table_.first_blocks(9, limit);
    start_round(subset);
    expect(subset);
    apply(subset, nullptr);
    EXPECT_EQ(table_.storage(), expected_w_);
    EXPECT_EQ(ema_, expected_ema_);
  }
}

TEST_P(Apply, RefreshesTheMirrorOnTheSubsetOnly) {
  const Subset subset = table_.subset(5, 3, 2);
  start_round(subset);
  auto expected = mirror_.storage();
  const ParameterTable mirror = mirror_.table();
  apply(subset, &mirror);
  for (const Element& element : table_.elements_of(subset)) {
    expected[static_cast<size_t>(&mirror_.at(element) - mirror_.storage().data())] =
        table_.at(element);
  }
  EXPECT_EQ(mirror_.storage(), expected);
}

TEST_P(Apply, MarksTheBlocksOfTheSubsetAsVisited) {
  if (args_.rule != Rule::kEma) {
    EXPECT_EQ(std::count(visited_.begin(), visited_.end(), 0U),
              static_cast<std::ptrdiff_t>(visited_.size()));
    return;
  }
  const Subset subset = table_.subset(8, 5, 0);
  start_round(subset);
  apply(subset, nullptr);
  for (uint64_t block = 0; block < table_.blocks(); ++block) {
    const bool in = permute(8, table_.blocks(), block) % 5 == 0;
    EXPECT_EQ((visited_[block / 64] >> (block % 64) & 1) != 0, in);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, Apply,
                         testing::Combine(testing::Values(1U, 64U, 100U, 5000U),
                                          testing::Values(Rule::kAverage, Rule::kDelta, Rule::kEma),
                                          testing::Values(Encoding::kFloat32, Encoding::kBfloat16,
                                                          Encoding::kFloat16)));

// What the encoding cannot hold stays with the rank that made it: with equal contributions nothing
// is lost, however small the steps are.
TEST(ApplyLossy, KeepsStepsBelowTheSpacingOfTheEncoding) {
  std::vector<float> w(64, 1.0F);
  const TensorView view = {w.data(), 64, 0};
  const Subset subset = {0, 1, 1, 0, 64};
  const ParameterTable table = {&view, 1};
  float snapshot[64], mean[64], ema[64] = {};
  std::byte own[128];
  uint64_t visited = 0;
  const ApplyArrays arrays = {snapshot, mean, own, Encoding::kBfloat16, ema, &visited, nullptr};
  for (int step = 0; step < 100; ++step) {
    for (float& value : w) value += 1e-4F;  // bf16 spacing at 1 is 2^-7
    cpu().partition_pack(table, subset, {Encoding::kBfloat16}, snapshot, own, {});
    cpu().dequantise(own, 64, Encoding::kBfloat16, mean, {});
    cpu().apply(table, subset, {}, arrays, {});
  }
  EXPECT_NEAR(w[0], 1.01F, 1e-5F);
}

// Oracle O-23 at the level of kernels: R = 2, n = 4, p = 0.5, fixed parts {0,2} and {1,3}.
struct Golden {
  int delay;
  Rule rule;
  bool parity;  // the first application of all takes the full drift, later first visits (1 - m)
  float first[4], second[4];
};

class ApplyGolden : public testing::TestWithParam<Golden> {};

TEST_P(ApplyGolden, OracleO23) {
  struct Round {
    float snapshot[2][2], mean[2];
  };
  const Golden& golden = GetParam();
  float w[2][4] = {}, ema[2][4] = {};
  uint64_t visited[2] = {0, 0}, not_finite = 0;
  std::vector<Round> rounds;
  const float weights[2] = {1, 1};
  for (uint32_t t = 0; t < 6; ++t) {
    Round& round = rounds.emplace_back();
    const std::byte* values[2];
    for (int r = 0; r < 2; ++r) {
      for (int j = 0; j < 4; ++j) w[r][j] += static_cast<float>((r + 1) * (j + 1));
      const TensorView view = {w[r], 4, 0};
      cpu().partition_pack({&view, 1}, {0, 4, 2, t % 2, 1}, {}, round.snapshot[r], nullptr, {});
      values[r] = reinterpret_cast<const std::byte*>(round.snapshot[r]);
    }
    cpu().average({values, weights, 2}, 2, round.mean, &not_finite, {});
    const int due = static_cast<int>(t) - golden.delay;
    if (due < 0) continue;
    ApplyArgs args;
    args.rule = golden.rule;
    args.first_visit_full = golden.parity && due == 0;
    for (int r = 0; r < 2; ++r) {
      const TensorView view = {w[r], 4, 0};
      ApplyArrays arrays;
      arrays.snapshot = rounds[due].snapshot[r];
      arrays.mean = rounds[due].mean;
      arrays.ema = ema[r];
      arrays.visited = &visited[r];
      cpu().apply({&view, 1}, {0, 4, 2, static_cast<uint32_t>(due) % 2, 1}, args, arrays, {});
    }
  }
  for (int j = 0; j < 4; ++j) {
    EXPECT_EQ(w[0][j], golden.first[j]);
    EXPECT_EQ(w[1][j], golden.second[j]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ApplyGolden,
    testing::Values(Golden{0, Rule::kAverage, true, {8.5, 18, 25.5, 36}, {9.5, 18, 28.5, 36}},
                    Golden{0, Rule::kDelta, true, {8.5, 18, 25.5, 36}, {9.5, 18, 28.5, 36}},
                    Golden{0, Rule::kEma, true, {8.5, 18, 25.5, 36}, {9.5, 18, 28.5, 36}},
                    Golden{1, Rule::kAverage, true, {4.5, 11, 13.5, 22}, {4.5, 13, 13.5, 26}},
                    Golden{1, Rule::kDelta, true, {8.5, 16, 25.5, 32}, {9.5, 20, 28.5, 40}},
                    Golden{1, Rule::kEma, true, {8.5, 14, 25.5, 28}, {9.5, 17.5, 28.5, 35}},
                    Golden{1, Rule::kEma, false, {7.25, 14, 21.75, 28}, {8.125, 17.5, 24.375, 35}},
                    Golden{2, Rule::kAverage, true, {5.5, 12, 16.5, 24}, {6.5, 12, 19.5, 24}},
                    Golden{2, Rule::kDelta, true, {8, 18, 24, 36}, {10, 18, 30, 36}},
                    Golden{2, Rule::kEma, true, {7.75, 15, 23.25, 30}, {10.25, 15, 30.75, 30}}));

}  // namespace
}  // namespace asyncmesh::kernels
