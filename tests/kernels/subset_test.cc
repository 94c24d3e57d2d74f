// Pack, unpack and apply on random tables, storages, encodings, alignments and numbers of threads,
// on every instruction set, against the plain loops of reference_subset.h.
#include <gtest/gtest.h>

#include <map>

#include "kernels/cpu/thread_team.h"
#include "tests/kernels/every_target.h"
#include "tests/kernels/reference_quantise.h"
#include "tests/kernels/reference_subset.h"

namespace asyncmesh::kernels {
namespace {

using reference::StoredTable;

constexpr Encoding kStorages[] = {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16};

// One random setting.
class SubsetCase {
 public:
  explicit SubsetCase(uint32_t seed, bool large = false)
      : generator_(seed),
        granularity_(pick<uint32_t>({1, 7, 64, 64, 100, 128, 129, 1000, 100000})),
        shapes_(counts(large), granularity_, seed),
        storage_(pick<Encoding>({kStorages[0], kStorages[0], kStorages[1], kStorages[2]})),
        table_(shapes_, storage_, seed, below(40)),
        subset_(shapes_.subset(below(4), 1 + static_cast<uint32_t>(below(3)), 0)) {
    subset_.part = static_cast<uint32_t>(below(subset_.parts));
    if (below(4) == 0) subset_.limit = below(shapes_.blocks());
    wire_.encoding = static_cast<Encoding>(below(5));
    wire_.rounding = static_cast<Rounding>(below(2));
    wire_.seed = generator_();
    elements_ = shapes_.elements_of(subset_);
    for (const Element& element : elements_) values_.push_back(table_.get(element));
  }

  uint64_t below(uint64_t bound) { return generator_() % bound; }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[below(from.size())];
  }
  std::vector<float> random_values() {
    std::normal_distribution<float> normal;
    std::vector<float> values(elements_.size());
    for (float& value : values) value = normal(generator_);
    return values;
  }

  static std::vector<uint64_t> counts(bool large) {
    std::vector<uint64_t> counts = {0, 1, 63, 64, 65, 0, 128, 1000, 1, 7, 4096, 100, 5000, 0};
    if (large) counts.insert(counts.end(), {150000, 1, 70001, 33});
    return counts;
  }

  std::mt19937_64 generator_;
  uint32_t granularity_;
  RandomTable shapes_;
  Encoding storage_;
  StoredTable table_;
  Subset subset_;
  Wire wire_;
  std::vector<Element> elements_;
  std::vector<float> values_;  // of the subset, in order
};

constexpr std::byte kUntouched{0xAB};

void check_pack(SubsetCase& given, const Execution& on) {
  const uint64_t count = given.elements_.size();
  ASSERT_EQ(cpu().subset_elements(given.table_.table(), given.subset_), count);
  const auto expected = reference::quantised(given.values_.data(), count, given.wire_, 0);
  const bool wants_snapshot = given.below(3) != 0, wants_encoded = given.below(3) != 0;
  const uint64_t shift = given.below(5);
  std::vector<float> snapshot(count + 1, -7.0F);
  std::vector<std::byte> encoded(expected.size() + shift + 1, kUntouched);
  cpu().partition_pack(given.table_.table(), given.subset_, given.wire_,
                       wants_snapshot ? snapshot.data() : nullptr,
                       wants_encoded ? encoded.data() + shift : nullptr, on);
  if (wants_snapshot) {
    EXPECT_TRUE(std::equal(given.values_.begin(), given.values_.end(), snapshot.begin()));
  }
  EXPECT_EQ(snapshot.back(), -7.0F);
  if (wants_encoded) {
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), encoded.begin() + shift));
  }
  EXPECT_EQ(encoded.back(), kUntouched);
}

void check_unpack(SubsetCase& given, const Execution& on) {
  const uint64_t count = given.elements_.size();
  const auto values = given.random_values();
  const auto encoded = reference::quantised(values.data(), count, given.wire_, 0);
  std::vector<float> decoded(count);
  cpu().dequantise(encoded.data(), count, given.wire_.encoding, decoded.data(), {});
  const std::vector<std::byte> before = given.table_.memory();
  for (uint64_t i = 0; i < count; ++i) given.table_.set(given.elements_[i], decoded[i]);
  const std::vector<std::byte> expected = given.table_.memory();
  given.table_.restore(before);
  std::vector<std::byte> shifted(encoded.size() + 3);
  std::copy(encoded.begin(), encoded.end(), shifted.begin() + 3);
  cpu().partition_unpack(given.table_.table(), given.subset_, given.wire_.encoding,
                         shifted.data() + 3, on);
  EXPECT_TRUE(same_bits(given.table_.memory(), expected));
}

void check_apply(SubsetCase& given, const Execution& on) {
  const uint64_t count = given.elements_.size();
  const auto snapshot = given.random_values(), mean = given.random_values();
  const auto own = reference::quantised(snapshot.data(), count, given.wire_, 0);
  std::vector<float> decoded(count);
  cpu().dequantise(own.data(), count, given.wire_.encoding, decoded.data(), {});
  StoredTable mirror(given.shapes_,
                     given.pick<Encoding>({kStorages[0], kStorages[1], kStorages[2]}), 5,
                     given.below(40));
  const ParameterTable mirror_table = mirror.table();
  std::vector<float> ema = given.shapes_.random_values(given.shapes_.elements());
  std::vector<uint64_t> visited(given.shapes_.blocks() / 64 + 1);
  for (uint64_t& word : visited) word = given.generator_();

  ApplyArgs args{given.pick<Rule>({Rule::kAverage, Rule::kDelta, Rule::kEma}), 0.75F, 0.9F,
                 given.below(2) == 0};
  const bool lossy = given.below(2) == 0, mirrored = given.below(2) == 0;
  std::vector<float> expected_ema = ema;
  std::vector<uint64_t> expected_visited = visited;
  const auto w = reference::applied(given.table_, given.elements_, args,
                                    {snapshot, mean, lossy ? &decoded : nullptr}, expected_ema,
                                    expected_visited);
  StoredTable expected(given.table_), expected_mirror(mirror);
  const bool ema_rule = args.rule == Rule::kEma;
  ApplyArrays arrays{snapshot.data(),
                     mean.data(),
                     lossy ? own.data() : nullptr,
                     given.wire_.encoding,
                     ema_rule ? ema.data() : nullptr,
                     ema_rule ? visited.data() : nullptr,
                     mirrored ? &mirror_table : nullptr};
  cpu().apply(given.table_.table(), given.subset_, args, arrays, on);

  EXPECT_TRUE(same_bits(ema, expected_ema));
  EXPECT_EQ(visited, expected_visited);
  const auto table_before = given.table_.memory(), mirror_before = mirror.memory();
  for (uint64_t i = 0; i < count; ++i) {
    given.table_.set(given.elements_[i], w[i]);
    if (mirrored) mirror.set(given.elements_[i], given.table_.get(given.elements_[i]));
  }
  EXPECT_TRUE(same_bits(table_before, given.table_.memory()));
  EXPECT_TRUE(same_bits(mirror_before, mirror.memory()));
}

using Check = void (*)(SubsetCase& given, const Execution& on);

class SubsetKernels : public testing::TestWithParam<Check> {};

TEST_P(SubsetKernels, AgreeWithThePlainLoopsOnEveryTarget) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    on_every_target([&] {
      SubsetCase given(seed);
      GetParam()(given, {});
    });
    if (HasFailure()) return;
  }
}

TEST_P(SubsetKernels, DoNotDependOnTheNumberOfThreads) {
  std::map<uint32_t, ThreadTeam> teams;
  for (uint32_t threads = 1; threads <= 3; ++threads) teams.try_emplace(threads, threads);
  for (uint32_t seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE(seed);
    for (auto& [threads, team] : teams) {
      SubsetCase given(seed, true);
      GetParam()(given, {&team, nullptr});
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Pack, SubsetKernels, testing::Values(check_pack));
INSTANTIATE_TEST_SUITE_P(Unpack, SubsetKernels, testing::Values(check_unpack));
INSTANTIATE_TEST_SUITE_P(Apply, SubsetKernels, testing::Values(check_apply));

// Tables that exceed the caches, which are written around them, and so is what is packed of them.
class LargeTable {
 public:
  LargeTable(Encoding storage, uint32_t granularity, uint64_t shift)
      : LargeTable({least(storage), 1000, 77}, storage, granularity, shift) {}
  LargeTable(const std::vector<uint64_t>& counts, Encoding storage, uint32_t granularity,
             uint64_t shift)
      : shapes_(counts, granularity, 1),
        table_(shapes_, storage, 2, shift),
        subset_(shapes_.subset(3, 150, 7)),
        elements_(shapes_.elements_of(subset_)) {}

  static uint64_t least(Encoding storage) {
    return storage == Encoding::kFloat32 ? uint64_t{9} << 20 : uint64_t{17} << 20;
  }

  RandomTable shapes_;
  StoredTable table_;
  Subset subset_;
  std::vector<Element> elements_;
};

void check_large_pack(const LargeTable& large, const Wire& wire, uint64_t shift,
                      const Execution& on) {
  const uint64_t count = large.elements_.size();
  std::vector<float> values;
  for (const Element& element : large.elements_) values.push_back(large.table_.get(element));
  const auto expected = reference::quantised(values.data(), count, wire, 0);
  std::vector<float> snapshot(count + 32, -7.0F);
  std::vector<std::byte> encoded(expected.size() + 64, kUntouched);
  cpu().partition_pack(large.table_.table(), large.subset_, wire, snapshot.data() + shift,
                       encoded.data() + shift, on);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), snapshot.begin() + shift));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), encoded.begin() + shift));
  for (uint64_t i = 0; i < shift; ++i) {
    EXPECT_EQ(snapshot[i], -7.0F);
    EXPECT_EQ(encoded[i], kUntouched);
  }
  EXPECT_EQ(snapshot[count + shift], -7.0F);
  EXPECT_EQ(encoded[expected.size() + shift], kUntouched);
}

TEST(PartitionPack, PacksLargeTablesAlike) {
  ThreadTeam two(2), three(3);
  uint64_t shift = 0;
  for (const uint32_t granularity : {63U, 64U, 500U}) {
    const LargeTable large(Encoding::kFloat32, granularity, shift);
    for (const uint32_t encoding : {0U, 1U, 2U, 3U, 4U}) {
      Wire wire;
      wire.encoding = static_cast<Encoding>(encoding);
      wire.rounding = static_cast<Rounding>(shift % 2);
      for (Workers* workers : {static_cast<Workers*>(nullptr), static_cast<Workers*>(&two),
                               static_cast<Workers*>(&three)}) {
        check_large_pack(large, wire, shift, {workers, nullptr});
        shift = (shift + 1) % 18;
      }
    }
    on_every_target([&] { check_large_pack(large, {Encoding::kInt8}, shift, {}); });
  }
  const LargeTable narrow(Encoding::kBfloat16, 64, 3);
  check_large_pack(narrow, {Encoding::kInt4}, 7, {&two, nullptr});
}

void check_large_unpack(LargeTable& large, Encoding encoding, const Execution& on) {
  const uint64_t count = large.elements_.size();
  const std::vector<float> values = large.shapes_.random_values(count);
  const auto encoded = reference::quantised(values.data(), count, {encoding}, 0);
  std::vector<float> decoded(count);
  cpu().dequantise(encoded.data(), count, encoding, decoded.data(), {});
  const auto before = large.table_.memory();
  for (uint64_t i = 0; i < count; ++i) large.table_.set(large.elements_[i], decoded[i]);
  const auto expected = large.table_.memory();
  large.table_.restore(before);
  cpu().partition_unpack(large.table_.table(), large.subset_, encoding, encoded.data(), on);
  EXPECT_TRUE(same_bits(large.table_.memory(), expected));
}

TEST(PartitionUnpack, WritesLargeTablesAlike) {
  ThreadTeam three(3);
  LargeTable aligned(Encoding::kFloat32, 64, 0), shifted(Encoding::kFloat32, 500, 5);
  for (const uint32_t encoding : {0U, 1U, 2U, 3U, 4U}) {
    check_large_unpack(aligned, static_cast<Encoding>(encoding), {});
    check_large_unpack(shifted, static_cast<Encoding>(encoding), {&three, nullptr});
  }
  on_every_target([&] { check_large_unpack(aligned, Encoding::kInt4, {}); });
  LargeTable narrow(Encoding::kBfloat16, 64, 3);
  check_large_unpack(narrow, Encoding::kInt8, {});
}

// Every other tensor starts a line, and some blocks have 2 or 62 values, one in a while 1 or 63:
// rows of the encoding begin anywhere in the blocks between.
std::vector<uint64_t> ragged_counts(uint64_t elements) {
  std::vector<uint64_t> counts;
  for (uint64_t i = 0; i < elements / 1280; ++i) {
    const uint64_t more = i % 200 == 0 ? 1 : 2;
    counts.insert(counts.end(), {1216 + more, 64 - more});
  }
  return counts;
}

TEST(PartitionUnpack, DecodesRowsThatBeginAnywhere) {
  for (const Encoding storage : {Encoding::kFloat32, Encoding::kBfloat16, Encoding::kFloat16}) {
    LargeTable large(ragged_counts(LargeTable::least(storage)), storage, 64, 0);
    LargeTable small(ragged_counts(uint64_t{3} << 20), storage, 64, 0);
    for (LargeTable* table : {&large, &small}) {
      on_every_target([&] { check_large_unpack(*table, Encoding::kInt8, {}); });
      on_every_target([&] { check_large_unpack(*table, Encoding::kInt4, {}); });
    }
  }
  LargeTable shifted(ragged_counts(LargeTable::least(Encoding::kFloat32)), Encoding::kFloat32, 64,
                     1);
  check_large_unpack(shifted, Encoding::kInt8, {});
  check_large_unpack(shifted, Encoding::kInt4, {});
}

}  // namespace
}  // namespace asyncmesh::kernels
