// top_change of cuda() against a sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/cuda/top_change.h"
#include "tests/kernels/backend.h"

namespace asyncmesh::kernels {
namespace {

using backend::Array;
using backend::finish;
using backend::kStorages;
using backend::Layout;
using backend::random_values;
using backend::same_bits;

// A table with its reference, and what should be selected.
class Problem {
 public:
  explicit Problem(const backend::Table& table)
      : table_(table), reference_(random_values(table.elements(), 11)) {}

  void weigh() {
    weight_ = random_values(table_.elements(), 12);
    for (float& value : weight_) value = value < 0 ? 0 : value;
  }
  Array<float>& reference() { return reference_; }

  Array<uint32_t> expected(uint64_t k) const {
    const std::vector<uint32_t> scores = all_scores();
    std::vector<uint32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
    return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k)};
  }

  // Returns the passes over the data.
  uint32_t expect_exact(uint64_t k, const Threshold& guess = {}) const {
    const Change change = {table_.view(), reference_.data(),
                           weight_.empty() ? nullptr : weight_.data()};
    Array<std::byte> workspace(cuda()->top_change_workspace(table_.elements(), k) + 1,
                               std::byte{0xEE});
    Array<Threshold> threshold(1, guess);
    Array<uint32_t> indices(k + 1, 0xABABABABU);
    cuda()->top_change(change, k, threshold.data(), indices.data(), workspace.data(), {});
    EXPECT_EQ(finish(), "");
    EXPECT_EQ(workspace.back(), std::byte{0xEE});
    EXPECT_EQ(indices.back(), 0xABABABABU);
    indices.pop_back();
    EXPECT_TRUE(same_bits(indices, expected(k))) << "k = " << k;
    EXPECT_EQ(threshold[0].score, smallest_score(indices));
    return threshold[0].passes;
  }

 private:
  std::vector<uint32_t> all_scores() const {
    std::vector<uint32_t> scores(table_.elements());
    Array<float> w(scores.size());
    Array<uint32_t> indices(scores.size());
    std::iota(indices.begin(), indices.end(), 0);
    cpu().index_pack(table_.view(), indices.data(), indices.size(), {}, {},
                     reinterpret_cast<std::byte*>(w.data()), {});
    for (size_t i = 0; i < scores.size(); ++i) {
      scores[i] = selection::score_of(w[i], reference_[i], weight_.empty() ? 1.0F : weight_[i]);
    }
    return scores;
  }
  float smallest_score(const Array<uint32_t>& indices) const {
    const std::vector<uint32_t> scores = all_scores();
    uint32_t smallest = indices.empty() ? 0 : UINT32_MAX;
    for (const uint32_t index : indices) smallest = std::min(smallest, scores[index]);
    return float_of(smallest);
  }

  const backend::Table& table_;
  Array<float> reference_;
  Array<float> weight_;
};

backend::Table flat(uint64_t elements, Encoding storage = Encoding::kFloat32) {
  return {{elements}, 64, storage, Layout::kAligned, 10};
}

TEST(CudaTopChange, SmallTables) {
  for (const uint64_t elements : {1, 2, 63, 4096, 4097, 9000}) {
    const backend::Table table = flat(elements);
    const Problem problem(table);
    for (const uint64_t k : {uint64_t{0}, uint64_t{1}, elements / 20, elements / 2, elements}) {
      problem.expect_exact(k);
    }
  }
}

TEST(CudaTopChange, StoragesLayoutsAndWeights) {
  for (const Encoding storage : kStorages) {
    for (const Layout layout : {Layout::kOdd, Layout::kAligned}) {
      const backend::Table table({5, 0, 640, 1, 4999, 64, 300}, 64, storage, layout, 10);
      Problem problem(table);
      problem.expect_exact(table.elements() / 10);
      problem.weigh();
      problem.expect_exact(table.elements() / 10);
    }
  }
}

TEST(CudaTopChange, TablesOfSeveralLaunches) {
  const backend::Table table(backend::many_counts(), 64, Encoding::kBfloat16, Layout::kOdd, 10);
  const Problem problem(table);
  problem.expect_exact(table.elements() / 20);
  problem.expect_exact(table.elements() / 2);
  // Every launch begins with a tile.
  const backend::Table even(std::vector<uint64_t>(1030, 8), 8, Encoding::kFloat32, Layout::kOdd,
                            10);
  Problem(even).expect_exact(even.elements() / 20);
}

TEST(CudaTopChange, ASampleBracketsTheScore) {
  const backend::Table table = flat(100003);
  const Problem problem(table);
  for (const uint64_t k : {1, 100, 5000, 50000, 99990, 100003}) {
    EXPECT_EQ(problem.expect_exact(k), 1U);
  }
}

TEST(CudaTopChange, MoreTilesThanAPieceOfTheirScan) {
  const backend::Table table = flat((kThreads + 3) * selection::kTile);
  EXPECT_EQ(Problem(table).expect_exact(table.elements() / 20), 1U);
}

TEST(CudaTopChange, ASampleOfSeveralLaunches) {
  std::vector<uint64_t> counts = backend::many_counts();
  counts.push_back(70000);
  const backend::Table table(counts, 64, Encoding::kFloat32, Layout::kOdd, 10);
  EXPECT_EQ(Problem(table).expect_exact(table.elements() / 20), 1U);
}

TEST(CudaTopChange, TheSameWhateverTheGuess) {
  const backend::Table table = flat(70001);
  const Problem problem(table);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float score : {4.0F, 0.1F, -1.0F, kInfinity, NAN}) {
    EXPECT_EQ(problem.expect_exact(3500, {score, score > 4 ? 5U : 1U}), 1U) << score;
  }
}

// Scores from `score_of_element`, on either side of the threshold of the bracket.
void expect_exact_with(uint64_t elements, uint64_t k,
                       const std::function<float(uint64_t)>& score_of_element, uint32_t passes) {
  backend::Table table = flat(elements);
  Problem problem(table);
  for (uint64_t i = 0; i < elements; ++i) {
    table.set(i, score_of_element(i));
    problem.reference()[i] = 0;
  }
  EXPECT_EQ(problem.expect_exact(k), passes);
}

TEST(CudaTopChange, MassiveTies) {
  constexpr uint64_t kElements = 70001;
  for (const uint64_t k : {uint64_t{3000}, kElements / 2, kElements}) {
    expect_exact_with(
        kElements, k, [](uint64_t) { return 0.0F; }, 1);
    expect_exact_with(
        kElements, k, [](uint64_t) { return 1.5F; }, 1);
    expect_exact_with(
        kElements, k, [](uint64_t i) { return i % 16 == 3 ? 2.0F : 0.0F; }, 1);
    expect_exact_with(
        kElements, k, [](uint64_t i) { return static_cast<float>(i % 7); }, 1);
  }
}

TEST(CudaTopChange, SortedDenormalAndNotFinite) {
  constexpr uint64_t kElements = 70001;
  expect_exact_with(
      kElements, 3500, [](uint64_t i) { return static_cast<float>(i); }, 1);
  expect_exact_with(
      kElements, 3500, [](uint64_t i) { return 1e-41F * static_cast<float>(i % 999); }, 1);
  expect_exact_with(
      kElements, 69000,
      [](uint64_t i) { return i % 3 == 0   ? NAN
                              : i % 3 == 1 ? -INFINITY
                                           : static_cast<float>(i); },
      1);
}

// The bracket is open to one side, and the k-th score is one of many at its edge.
TEST(CudaTopChange, TiesAtTheEdgesOfTheBracket) {
  constexpr uint64_t kElements = 70001;
  const auto values = random_values(kElements, 4);
  const auto few_zeros = [&](uint64_t i) { return i % 2 == 0 ? 0.0F : 5.0F + values[i]; };
  const auto many_tops = [&](uint64_t i) { return i % 2 == 0 ? 9.0F : values[i]; };
  for (const uint64_t k : {kElements / 2 + 20, kElements / 2 + 21, kElements / 2 - 20}) {
    expect_exact_with(kElements, k, few_zeros, 1);
    expect_exact_with(kElements, k, many_tops, 1);
  }
}

// The first tie that is not taken has a selected element of another thread right behind it; in an
// even and in an odd tile.
TEST(CudaTopChange, NoTieBeyondThoseWanted) {
  constexpr uint64_t kElements = 70001, kTies = kElements / 4;
  const auto values = random_values(kElements, 5);
  const auto score = [&](uint64_t i) { return i % 4 == 3 ? 0.0F : 5.0F + values[i]; };
  for (const uint64_t ties : {uint64_t{10}, selection::kTile / 4 + uint64_t{10}}) {
    expect_exact_with(kElements, kElements - kTies + ties, score, 1);
  }
}

// The sampled elements say nothing of the others: the histograms over the data decide.
TEST(CudaTopChange, ABracketThatFails) {
  constexpr uint64_t kElements = 90000;  // more than there is room for survivors, and the sample
  std::vector<bool> sampled(kElements);
  for (uint32_t i = 0; i < selection::kSample; ++i) {
    sampled[selection::sampled_element(kElements, i)] = true;
  }
  const auto values = random_values(kElements, 3);
  const auto with = [&](float of_sample, float spread) {
    return [&, of_sample, spread](uint64_t i) {
      return sampled[i] ? of_sample + static_cast<float>(i % 64) * spread : values[i];
    };
  };
  expect_exact_with(kElements, 40000, with(100, 1), 5);   // too high
  expect_exact_with(kElements, 4000, with(0, 1e-6F), 5);  // too low
  expect_exact_with(kElements, 40000, with(100, 0), 5);   // too high, all the same
  // Launches that begin within a row of what the one before has counted.
  std::vector<uint64_t> counts(600, 150);
  backend::Table table(counts, 64, Encoding::kFloat32, Layout::kOdd, 10);
  Problem problem(table);
  for (uint64_t i = 0; i < kElements; ++i) {
    table.set(i, with(100, 1)(i));
    problem.reference()[i] = 0;
  }
  EXPECT_EQ(problem.expect_exact(40000), 5U);
  const auto wide = [&](uint64_t i) { return sampled[i] ? (i % 2 == 0 ? 0.0F : 9.0F) : values[i]; };
  expect_exact_with(kElements, kElements / 2, wide, 5);  // too many survivors
}

}  // namespace
}  // namespace asyncmesh::kernels
