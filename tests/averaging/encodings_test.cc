// Rounds in every encoding, rounded either way: against the kernels' own encode, decode and average
// over the whole run, so that every cut into pieces must leave the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <ostream>

#include "averaging/replicas.h"
#include "averaging/rounding.h"
#include "base/random.h"
#include "kernels/workers.h"

namespace asyncmesh::test {
namespace {

using kernels::Encoding;
using kernels::Rounding;
using kernels::Rule;

struct Form {
  const char* name;
  Encoding encoding;
  Rounding rounding;
  uint32_t payload_bytes;  // small pieces: one group, or some values
  double code;             // spacing of codes, relative to the largest value of a block
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

constexpr Form kForms[] = {{"bf16", Encoding::kBfloat16, Rounding::kNearest, 192, 0x1p-7},
                           {"fp16", Encoding::kFloat16, Rounding::kNearest, 192, 0x1p-10},
                           {"int8", Encoding::kInt8, Rounding::kNearest, 1088, 1.0 / 127},
                           {"int4", Encoding::kInt4, Rounding::kNearest, 576, 1.0 / 7},
                           {"bf16_st", Encoding::kBfloat16, Rounding::kStochastic, 192, 0x1p-7},
                           {"fp16_st", Encoding::kFloat16, Rounding::kStochastic, 192, 0x1p-10},
                           {"int8_st", Encoding::kInt8, Rounding::kStochastic, 1088, 1.0 / 127},
                           {"int4_st", Encoding::kInt4, Rounding::kStochastic, 640, 1.0 / 7}};

AveragerConfig lossy(const Form& form, Rule rule, double fraction, uint32_t tau) {
  AveragerConfig config = oracle_config(rule, fraction, tau);
  config.encoding = form.encoding;
  config.rounding = form.rounding;
  return config;
}

class Encodings : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, Encodings, testing::ValuesIn(kForms),
                         [](const auto& form) { return form.param.name; });

using Tables = std::vector<std::vector<float>>;

std::vector<float> decoded(const std::vector<std::byte>& bytes, size_t count, Encoding encoding) {
  std::vector<float> values(count);
  kernels::cpu().dequantise(bytes.data(), count, encoding, values.data(), {});
  return values;
}

// What rule `average` over the whole table leaves, when all encode round `round`.
Tables averaged(const AveragerConfig& config, const Tables& before,
                const std::vector<float>& weights, uint64_t round) {
  const size_t count = before[0].size();
  std::vector<std::vector<std::byte>> sent(before.size());
  std::vector<const std::byte*> values;
  for (uint32_t r = 0; r < before.size(); ++r) {
    sent[r].resize(kernels::encoded_bytes(config.encoding, count));
    const kernels::Wire wire{config.encoding, config.rounding, rounding_seed(config, round, r)};
    kernels::cpu().quantise(before[r].data(), count, wire, 0, sent[r].data(), {});
    values.push_back(sent[r].data());
  }
  std::vector<float> mean(count);
  uint64_t not_finite = 0;
  kernels::cpu().average(
      {values.data(), weights.data(), static_cast<uint32_t>(before.size()), config.encoding}, count,
      mean.data(), &not_finite, {});
  Tables after = before;
  for (size_t r = 0; r < before.size(); ++r) {
    const std::vector<float> own = decoded(sent[r], count, config.encoding);
    for (size_t i = 0; i < count; ++i) after[r][i] = before[r][i] + (mean[i] - own[i]);
  }
  return after;
}

void expect_rounds_as_a_whole(const Form& form, const std::vector<uint64_t>& tensors,
                              uint32_t payload_bytes) {
  const AveragerConfig config = lossy(form, Rule::kAverage, 1.0, 0);
  Replicas replicas(3, config, tensors, {.payload_bytes = payload_bytes});
  randomise(replicas, 5);
  const std::vector<float> weights{1.0F, 0.5F, 2.0F};
  for (uint64_t round = 0; round < 3; ++round) {
    const Tables expected = averaged(
        config, {replicas.weights(0), replicas.weights(1), replicas.weights(2)}, weights, round);
    expect_all(replicas.run_all([&](uint32_t r) {
      return replicas.averager(r).call({.weight = weights[r]}, nullptr);
    }),
               Code::kOk);
    for (uint32_t r = 0; r < 3; ++r) ASSERT_EQ(replicas.weights(r), expected[r]) << round;
  }
}

TEST_P(Encodings, TheMeanIsThatOfWhatEveryMemberSent) {
  for (const uint64_t size : {1U, 63U, 64U, 1023U, 1024U, 1025U, 2048U, 5000U}) {
    SCOPED_TRACE(size);
    expect_rounds_as_a_whole(GetParam(), {size}, 0);
    if (size > kernels::kGroup)
      expect_rounds_as_a_whole(GetParam(), {size}, GetParam().payload_bytes);
  }
}

TEST_P(Encodings, ManyTinyTensorsAreOneRun) {
  CounterRandom random(3);
  std::vector<uint64_t> tensors(700);
  for (uint64_t& count : tensors) count = random.below(9);
  expect_rounds_as_a_whole(GetParam(), tensors, GetParam().payload_bytes);
}

TEST_P(Encodings, PiecesOfTheGeometryAreWholeGroups) {
  const Form& form = GetParam();
  for (const uint64_t count : {1U, 1023U, 1024U, 1025U, 245'760U, 245'761U, 400'000U, 5'000'000U}) {
    std::vector<float> values(count);
    const Tensors table{{{.data = values.data(), .count = count}}};
    const AveragerGeometry geometry =
        averager_geometry(lossy(form, Rule::kAverage, 1.0, 0), table).value();
    const uint32_t payload = geometry.rounds.payload_bytes;
    const uint64_t per_piece = values_per_piece(form.encoding, payload);
    EXPECT_EQ(payload % 64, 0U);
    EXPECT_LE(payload, kMaxPieceBytes);
    EXPECT_GE(per_piece * geometry.pieces, count);
    EXPECT_LT(per_piece * (geometry.pieces - 1), count);
    EXPECT_LE(kernels::encoded_bytes(form.encoding, std::min(per_piece, count)), payload);
    if (kernels::scaled(form.encoding) && geometry.pieces > 1) {
      EXPECT_EQ(per_piece % kernels::kGroup, 0U);
    }
  }
}

// What the encoding cannot hold stays local instead of being lost.
TEST_P(Encodings, SmallStepsAreKept) {
  AveragerConfig config = lossy(GetParam(), Rule::kDelta, 0.5, 2);
  config.mode = AveragingMode::kOpportunistic;
  Replicas replicas(2, config, {100});
  for (uint32_t r = 0; r < 2; ++r) {
    replicas.add(r, [&](uint64_t i) { return 1.0F + 0.01F * static_cast<float>(i + r); });
  }
  constexpr int kCalls = 1000;
  constexpr float kStep = 1e-5F;  // far below the spacing of every form's codes
  const auto total = [&] {
    double sum = 0;
    for (uint32_t r = 0; r < 2; ++r) {
      sum += std::accumulate(replicas.weights(r).begin(), replicas.weights(r).end(), 0.0);
    }
    return sum / 200;
  };
  const double before = total();
  for (int call = 0; call < kCalls; ++call) {
    for (uint32_t r = 0; r < 2; ++r) {
      replicas.add(r, [](uint64_t) { return kStep; });
      replicas.call(r, {});
    }
    replicas.pump();
  }
  EXPECT_NEAR((total() - before) / (kCalls * double{kStep}), 1.0, 0.02);
}

TEST_P(Encodings, ReplicasComeTogether) {
  AveragerConfig config = lossy(GetParam(), Rule::kEma, 0.25, 2);
  config.mode = AveragingMode::kOpportunistic;
  config.granularity = 16;
  config.redraw = Redraw::kEveryCycle;
  Replicas replicas(2, config, {900, 33});
  randomise(replicas, 9);
  for (int call = 0; call < 200; ++call) {
    replicas.call(0, {});
    replicas.call(1, {});
    replicas.pump();
  }
  // Left are the errors of two roundings, of values up to 1.
  const double spacing = GetParam().code * (GetParam().rounding == Rounding::kNearest ? 1 : 2);
  for (size_t i = 0; i < replicas.elements(); ++i) {
    EXPECT_NEAR(replicas.weights(0)[i], replicas.weights(1)[i], 1.3 * spacing);
  }
}

TEST_P(Encodings, TheOrderOfCallsChangesNothing) {
  AveragerConfig config = lossy(GetParam(), Rule::kEma, 0.3, 3);
  config.redraw = Redraw::kEveryCycle;
  for (const Selection selection : {Selection::kRotation, Selection::kRandom}) {
    config.selection = selection;
    std::vector<float> seen[2];
    for (uint32_t order = 0; order < 2; ++order) {
      Replicas replicas(2, config, {4000, 31}, {.payload_bytes = GetParam().payload_bytes});
      randomise(replicas, 1);
      for (int call = 0; call < 30; ++call) {
        for (uint32_t r = 0; r < 2; ++r)
          replicas.add(r, [](uint64_t i) { return 1e-3F * static_cast<float>(i % 3); });
        const std::vector<uint32_t> who{order, 1 - order};
        expect_all(replicas.run_all(
                       who, [&](uint32_t r) { return replicas.averager(r).call({}, nullptr); }),
                   Code::kOk);
      }
      seen[order] = replicas.weights(1);
    }
    EXPECT_EQ(seen[0], seen[1]);
  }
}

void expect_left_out(const Form& form, float bad, kernels::Workers* workers) {
  Replicas replicas(3, lossy(form, Rule::kAverage, 1.0, 0), {5000},
                    {.payload_bytes = form.payload_bytes, .workers = workers});
  for (uint32_t r = 0; r < 3; ++r) replicas.weights(r).assign(5000, r == 0 ? 2.0F : 4.0F);
  replicas.weights(2)[4999] = bad;  // in its last piece
  replicas.call_all({});
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(replicas.averager(r).stats().not_finite, 1U);
    for (const float w : replicas.weights(r)) ASSERT_NEAR(w, 3.0F, 0.2F);
  }
}

TEST_P(Encodings, AContributionThatIsNotFiniteIsLeftOutWhole) {
  const std::unique_ptr<kernels::Workers> workers = kernels::make_thread_team(3);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    expect_left_out(GetParam(), bad, nullptr);
    expect_left_out(GetParam(), bad, workers.get());
  }
}

// Large enough that the kernels do cut it; means and the end included.
std::vector<float> run_with_threads(const Form& form, uint32_t payload_bytes,
                                    kernels::Workers* workers) {
  AveragerConfig config = lossy(form, Rule::kEma, 0.5, 1);
  config.granularity = 64;
  config.redraw = Redraw::kEveryCycle;
  Replicas replicas(2, config, {300'000, 3, 1000},
                    {.payload_bytes = payload_bytes, .workers = workers});
  randomise(replicas, 2);
  for (int call = 0; call < 5; ++call) {
    replicas.add(0, [](uint64_t i) { return 1e-3F * static_cast<float>(i % 5); });
    replicas.call_all({});
  }
  std::vector<float> before = replicas.weights(1);
  expect_all(replicas.run_all([&](uint32_t r) { return replicas.averager(r).finish({}); }),
             Code::kOk);
  EXPECT_EQ(replicas.weights(0), replicas.weights(1));
  before.insert(before.end(), replicas.weights(0).begin(), replicas.weights(0).end());
  return before;
}

// With few pieces the kernels are spread, with many the pieces are.
TEST_P(Encodings, ThreadsChangeNoResult) {
  for (const uint32_t payload_bytes : {0U, 8704U}) {
    const std::vector<float> alone = run_with_threads(GetParam(), payload_bytes, nullptr);
    for (const uint32_t threads : {2U, 3U}) {
      const std::unique_ptr<kernels::Workers> workers = kernels::make_thread_team(threads);
      EXPECT_EQ(run_with_threads(GetParam(), payload_bytes, workers.get()), alone) << threads;
    }
  }
}

void post(Mailbox& mailbox, const DeltaMeta& meta, const std::vector<std::byte>& bytes) {
  Mailbox::Post claimed;
  ASSERT_EQ(mailbox.claim(&claimed), Code::kOk);
  std::memcpy(claimed.values, bytes.data(), bytes.size());
  mailbox.commit(claimed, meta, static_cast<uint32_t>(bytes.size()));
}

void call_first_two(Replicas& replicas) {
  const std::vector<uint32_t> who{0, 1};
  std::vector<Status> statuses =
      replicas.run_all(who, [&](uint32_t r) { return replicas.averager(r).call({}, nullptr); });
  statuses.resize(2);
  expect_all(statuses, Code::kOk);
}

// A frame of member 2 with `change` made; the others average without it.
void expect_refused(const Form& form, const std::function<void(DeltaMeta&, size_t&)>& change) {
  constexpr uint64_t kCount = 1100;
  Replicas replicas(3, lossy(form, Rule::kAverage, 1.0, 0), {kCount});
  for (uint32_t r = 0; r < 3; ++r) replicas.weights(r).assign(kCount, r == 0 ? 1.0F : 2.0F);
  DeltaMeta meta{.kind = DeltaKind::kRound, .encoding = form.encoding, .count = kCount};
  size_t bytes = kernels::encoded_bytes(form.encoding, kCount);
  change(meta, bytes);
  post(replicas.rounds(2), meta, std::vector<std::byte>(bytes, std::byte{0}));
  call_first_two(replicas);
  EXPECT_EQ(replicas.averager(0).stats().frames_discarded, 1U);
  for (const float w : replicas.weights(0)) ASSERT_NEAR(w, 1.5F, 0.2F);
}

TEST_P(Encodings, FramesOfWrongCountsAreRefused) {
  expect_refused(GetParam(), [](DeltaMeta& meta, size_t&) { meta.count = 1099; });
  expect_refused(GetParam(), [](DeltaMeta& meta, size_t& bytes) {
    meta.count = 1024;
    bytes = kernels::encoded_bytes(meta.encoding, 1024);
  });
  expect_refused(GetParam(), [](DeltaMeta&, size_t& bytes) { bytes += 2; });
  expect_refused(GetParam(), [](DeltaMeta& meta, size_t&) { meta.pieces = 2; });
  if (GetParam().encoding == Encoding::kInt4) return;
  expect_refused(GetParam(), [](DeltaMeta& meta, size_t& bytes) {
    meta.encoding = Encoding::kInt4;
    bytes = kernels::encoded_bytes(meta.encoding, meta.count);
  });
}

TEST(ScaledEncodings, AScaleThatIsNotFiniteIsAContributionThatIsNot) {
  const Form& form = kForms[2];
  Replicas replicas(3, lossy(form, Rule::kAverage, 1.0, 0), {64});
  for (uint32_t r = 0; r < 3; ++r) replicas.weights(r).assign(64, r == 0 ? 1.0F : 2.0F);
  std::vector<std::byte> bytes(kernels::encoded_bytes(form.encoding, 64), std::byte{127});
  const float scale = std::numeric_limits<float>::max();  // finite, but not times 127
  std::memcpy(bytes.data(), &scale, sizeof scale);
  post(replicas.rounds(2), {.kind = DeltaKind::kRound, .encoding = form.encoding, .count = 64},
       bytes);
  call_first_two(replicas);
  EXPECT_EQ(replicas.averager(0).stats().not_finite, 1U);
  for (const float w : replicas.weights(0)) EXPECT_NEAR(w, 1.5F, 0.02F);
}

TEST(ScaledEncodings, AMailboxOfLessThanAGroupTakesOnlyRoundsOfOnePiece) {
  const Form& form = kForms[2];
  const auto status = [&](uint64_t count, uint32_t payload_bytes) {
    return Replicas(2, lossy(form, Rule::kAverage, 1.0, 0), {count},
                    {.payload_bytes = payload_bytes, .quiet = true})
        .status()
        .code();
  };
  EXPECT_EQ(status(448, 512), Code::kOk);
  EXPECT_EQ(status(449, 512), Code::kInvalidArgument);
  EXPECT_EQ(status(2048, 512), Code::kInvalidArgument);
  EXPECT_EQ(status(2048, 64), Code::kInvalidArgument);
}

TEST(RoundingSeed, IsOfSeedGroupRoundAndRank) {
  std::vector<uint64_t> seen;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (uint64_t group = 0; group < 4; ++group) {
      AveragerConfig config;
      config.seed = seed;
      config.group_key = group;
      for (uint64_t round = 0; round < 8; ++round) {
        for (uint32_t rank = 0; rank < 8; ++rank)
          seen.push_back(rounding_seed(config, round, rank));
      }
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  static_assert(rounding_seed({}, 7, 3) == rounding_seed({}, 7, 3));
}

// Members that are equal draw bits of their own: their means differ from what each has sent.
TEST(RoundingSeed, MembersDoNotShareBits) {
  Replicas replicas(2, lossy(kForms[6], Rule::kAverage, 1.0, 0), {640});
  for (uint32_t r = 0; r < 2; ++r) {
    replicas.add(r, [](uint64_t i) { return 0.1F + 1e-3F * static_cast<float>(i); });
  }
  const std::vector<float> before = replicas.weights(0);
  replicas.call_all({});
  size_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) changed += before[i] != replicas.weights(0)[i];
  EXPECT_GT(changed, 150U);
}

}  // namespace
}  // namespace asyncmesh::test
