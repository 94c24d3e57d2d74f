#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "kernels/cpu/change_selection.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/kernels.h"
#include "tests/kernels/every_target.h"
#include "tests/kernels/reference_selection.h"

namespace asyncmesh::kernels {
namespace {

using reference::StoredTable;

enum class Structure {
  kNormal,
  kEqual,
  kZero,
  kTwoValues,
  kFewValues,
  kOneHuge,
  kAscending,
  kDescending,
  kSubnormal,
  kNotFinite,
  kScales,
  kAllBits,
};
constexpr Structure kStructures[] = {
    Structure::kNormal,    Structure::kEqual,     Structure::kZero,      Structure::kTwoValues,
    Structure::kFewValues, Structure::kOneHuge,   Structure::kAscending, Structure::kDescending,
    Structure::kSubnormal, Structure::kNotFinite, Structure::kScales,    Structure::kAllBits,
};

struct Memory {
  explicit Memory(size_t bytes) : bytes_(bytes + 256, std::byte{0xA5}) {}
  void* get() {
    const auto at = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (256 - at % 256) % 256;
  }
  std::vector<std::byte> bytes_;
};

// A change of a table of so many elements.
class Problem {
 public:
  Problem(uint64_t elements, Structure structure, Encoding storage, bool weighted, uint64_t seed)
      : w_(reference::shapes(elements, seed), storage), reference_(elements), generator_(seed) {
    for (uint64_t i = 0; i < elements; ++i) {
      reference_[i] = structure == Structure::kNormal ? normal_(generator_) : 0.0F;
      w_.set(i, value(structure, i));
    }
    if (!weighted) return;
    for (uint64_t i = 0; i < elements; ++i) weight_.push_back(std::fabs(normal_(generator_)));
  }

  Change change() const {
    return {w_.table(), reference_.data(), weight_.empty() ? nullptr : weight_.data()};
  }
  uint64_t elements() const { return w_.elements(); }
  std::vector<float> scores() const { return reference::scores(w_, reference_, weight_); }

 private:
  float value(Structure structure, uint64_t i) {
    const float random = normal_(generator_);
    const float position = static_cast<float>(i) + 1;
    switch (structure) {
      case Structure::kNormal:
        return random;
      case Structure::kEqual:
        return i % 2 == 0 ? 0.5F : -0.5F;
      case Structure::kZero:
        return 0.0F;
      case Structure::kTwoValues:
        return random > 1.0F ? 2.0F : 1.0F;
      case Structure::kFewValues:
        return std::floor(random * 2);
      case Structure::kOneHuge:
        return i == elements() / 2 ? 30000.0F : 0.0F;
      case Structure::kAscending:
        return position * 0x1p-10F;
      case Structure::kDescending:
        return 1 / position;
      case Structure::kSubnormal:
        return random * 1e-39F;
      case Structure::kNotFinite:
        return random > 0 ? std::numeric_limits<float>::quiet_NaN()
                          : (random > -1 ? -std::numeric_limits<float>::infinity() : random);
      case Structure::kScales:
        return std::ldexp(random, static_cast<int>(i / 997 % 9) * 2 - 8);
      case Structure::kAllBits:
        return float_of(static_cast<uint32_t>(generator_()));
    }
    return 0;
  }

  StoredTable w_;
  std::vector<float> reference_, weight_;
  std::mt19937_64 generator_;
  std::normal_distribution<float> normal_;
};

std::vector<uint32_t> top_change(const Problem& problem, uint64_t k, Threshold& threshold,
                                 Workers* workers) {
  constexpr uint32_t kUntouched = 0xABCDABCD;
  std::vector<uint32_t> indices(k + 1, kUntouched);
  Memory workspace(cpu().top_change_workspace(problem.elements(), k));
  cpu().top_change(problem.change(), k, &threshold, indices.data(), workspace.get(), {workers});
  EXPECT_EQ(indices.back(), kUntouched);
  indices.pop_back();
  return indices;
}

float smallest(const std::vector<float>& scores, const std::vector<uint32_t>& of) {
  float least = std::numeric_limits<float>::infinity();
  for (const uint32_t index : of) least = std::min(least, scores[index]);
  return least;
}

void expect_right(const Problem& problem, const std::vector<float>& scores, uint64_t k,
                  Workers* workers) {
  Threshold threshold;
  const auto expected = reference::top(scores, k);
  ASSERT_EQ(top_change(problem, k, threshold, workers), expected) << "k " << k;
  ASSERT_EQ(threshold.score, k == 0 ? 0 : smallest(scores, expected)) << "k " << k;
  ASSERT_EQ(threshold.passes, k == 0 ? 0 : 1) << "k " << k;
}

class TopChange : public testing::TestWithParam<Structure> {};

TEST_P(TopChange, SelectsTheLargestAtAnySize) {
  uint64_t seed = 1;
  for (const uint64_t elements : {1, 2, 63, 64, 65, 1000, 4095, 4096, 4097, 8192, 8193, 20000}) {
    const Problem problem(elements, GetParam(), Encoding::kFloat32, false, ++seed);
    const auto scores = problem.scores();
    for (const uint64_t k : {uint64_t{0}, uint64_t{1}, elements / 1000, elements / 20, elements / 2,
                             elements - 1, elements}) {
      expect_right(problem, scores, k, nullptr);
    }
  }
}

TEST_P(TopChange, SelectsTheSameWhateverTheInstructionSetAndTheThreads) {
  constexpr uint64_t kElements = 250000;  // three ranges
  const Problem problem(kElements, GetParam(), Encoding::kFloat32, false, 3);
  for (const uint64_t k : {kElements / 1000, kElements / 20, kElements / 2}) {
    Threshold threshold;
    const auto expected = reference::top(problem.scores(), k);
    on_every_target([&] { ASSERT_EQ(top_change(problem, k, threshold, nullptr), expected); });
    for (const uint32_t threads : {1, 2, 3}) {
      ThreadTeam team(threads);
      ASSERT_EQ(top_change(problem, k, threshold, &team), expected) << threads << " threads";
    }
  }
}

TEST_P(TopChange, ReadsEveryStorageAndWeighs) {
  constexpr uint64_t kElements = 30000;
  for (const Encoding storage : {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16}) {
    for (const bool weighted : {false, true}) {
      const Problem problem(kElements, GetParam(), storage, weighted, 5);
      const auto scores = problem.scores();
      const auto expected = reference::top(scores, kElements / 20);
      on_every_target([&] {
        Threshold threshold;
        ASSERT_EQ(top_change(problem, kElements / 20, threshold, nullptr), expected);
        std::vector<float> computed(kElements);
        score_run(problem.change(), 0, kElements, reinterpret_cast<int32_t*>(computed.data()));
        ASSERT_TRUE(same_bits(computed, scores));
      });
    }
  }
}

// Whatever the bracket was, collect says whether it holds, and exact_bracket gives one that does.
TEST_P(TopChange, FindsAnExactBracketWhenTheSampleMissed) {
  constexpr uint64_t kElements = 150000;
  const Problem problem(kElements, GetParam(), Encoding::kFloat32, false, 7);
  const Change change = problem.change();
  const auto scores = problem.scores();
  ThreadTeam team(2);
  for (const uint64_t k : {kElements / 1000, kElements / 20, kElements / 2, kElements}) {
    const auto expected = reference::top(scores, k);
    const auto threshold = static_cast<int32_t>(bits_of(smallest(scores, expected)));
    Memory workspace(cpu().top_change_workspace(kElements, k));
    ChangeSelection selection(change, k, workspace.get(), &team);
    EXPECT_FALSE(selection.collect({threshold + 1, threshold + 5})) << "k " << k;
    if (threshold > 0) {
      EXPECT_FALSE(selection.collect({threshold - 1, threshold - 1}));
    }
    ASSERT_TRUE(selection.collect(selection.exact_bracket())) << "k " << k;
    std::vector<uint32_t> indices(k);
    EXPECT_EQ(selection.finish(indices.data()), threshold);
    EXPECT_EQ(indices, expected);
    EXPECT_LE(selection.passes(), 6U);
  }
}

TEST_P(TopChange, TakesAnyBracketThatHolds) {
  constexpr uint64_t kElements = 8000;  // so that all may be inside
  const Problem problem(kElements, GetParam(), Encoding::kFloat32, false, 11);
  const Change change = problem.change();
  const auto scores = problem.scores();
  constexpr uint64_t kSelected = kElements / 3;
  const auto expected = reference::top(scores, kSelected);
  const auto threshold = static_cast<int32_t>(bits_of(smallest(scores, expected)));
  for (const int32_t below : {0, 1, 2, 1000}) {
    for (const int32_t above : {0, 1, 2, 1000}) {
      Memory workspace(cpu().top_change_workspace(kElements, kSelected));
      ChangeSelection selection(change, kSelected, workspace.get(), nullptr);
      ASSERT_TRUE(selection.collect({std::max(-1, threshold - below), threshold + above}));
      std::vector<uint32_t> indices(kSelected);
      EXPECT_EQ(selection.finish(indices.data()), threshold);
      EXPECT_EQ(indices, expected);
    }
  }
}

// Right, a little wrong, absurd: the result is that without a guess.
TEST_P(TopChange, TakesAnyGuess) {
  constexpr uint64_t kElements = 50000, kSelected = kElements / 20;
  const Problem problem(kElements, GetParam(), Encoding::kFloat32, false, 13);
  Threshold right;
  const auto expected = top_change(problem, kSelected, right, nullptr);
  for (const float factor :
       {1.0F, 0.99F, 1.01F, 0.97F, 1.03F, 1e-3F, 1e3F, 0.0F, -1.0F, NAN, INFINITY}) {
    Threshold threshold = {right.score * factor, 1};
    ASSERT_EQ(top_change(problem, kSelected, threshold, nullptr), expected) << factor;
    EXPECT_EQ(threshold.score, right.score);
    EXPECT_LE(threshold.passes, 2U);
  }
}

INSTANTIATE_TEST_SUITE_P(Structures, TopChange, testing::ValuesIn(kStructures));

TEST(TopChangeWorkspace, IsAFractionOfTheTable) {
  constexpr uint64_t kElements = 100'000'000;
  EXPECT_LT(cpu().top_change_workspace(kElements, kElements / 1000), kElements / 3);
  EXPECT_LT(cpu().top_change_workspace(kElements, kElements / 2), kElements / 2);
}

TEST(TopChangeGuess, SavesTheSampleWhenItHoldsAndAPassWhenItIsAbsurd) {
  constexpr uint64_t kElements = 200000, kSelected = kElements / 20;
  const Problem problem(kElements, Structure::kNormal, Encoding::kFloat32, false, 17);
  Threshold threshold;
  top_change(problem, kSelected, threshold, nullptr);
  const float right = threshold.score;
  for (const float factor : {1.0F, 1.005F, 0.995F, 100.0F, 0.01F}) {
    threshold = {right * factor, 1};
    top_change(problem, kSelected, threshold, nullptr);
    EXPECT_EQ(threshold.passes, 1U) << factor;
  }
  threshold = {right * 1.03F, 1};  // the small sample cannot tell, the pass can
  top_change(problem, kSelected, threshold, nullptr);
  EXPECT_EQ(threshold.passes, 2U);
  threshold.score = right * 1.03F;  // not trusted right after that
  top_change(problem, kSelected, threshold, nullptr);
  EXPECT_EQ(threshold.passes, 1U);
}

TEST(TopChangeSample, MissesNoMoreOftenThanItsMarginSays) {
  constexpr uint64_t kElements = 20000;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Problem problem(kElements, Structure::kNormal, Encoding::kFloat32, false, seed);
    Memory workspace(cpu().top_change_workspace(kElements, kElements / 20));
    ChangeSelection selection(problem.change(), kElements / 20, workspace.get(), nullptr);
    EXPECT_TRUE(selection.collect(selection.sampled_bracket())) << seed;
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
