#include "kernels/cpu/change_selection.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/change_sample.h"
#include "kernels/cpu/element_cursor.h"
#include "kernels/encoding.h"
#include "kernels/workers.h"

namespace asyncmesh::kernels {
namespace {

constexpr uint32_t kBucketBits = 11;
static_assert(kBuckets == 1U << kBucketBits);

// Up to here all elements count as inside the bracket.
constexpr uint64_t kListedWhole = 8192;

// A power of two near 0.6 elements^(2/3), where a larger sample costs as much as the shorter list
// of survivors saves.
uint64_t sample_size(uint64_t elements) noexcept {
  if (elements <= kListedWhole) return 0;
  const auto wanted = 0.03 * static_cast<double>(elements) * static_cast<double>(elements);
  uint64_t size = 1024;
  while (size < (uint64_t{1} << 18) && static_cast<double>(size * size * size) < wanted) size *= 2;
  return size;
}

uint64_t survivors_to_hold(uint64_t elements, uint64_t k, uint64_t sampled) noexcept {
  if (sampled == 0) return elements;
  const double share = static_cast<double>(k) / static_cast<double>(elements);
  const double inside = 2 * sample_margin(sampled, share) / static_cast<double>(sampled);
  // Twice what is expected to be inside.
  return static_cast<uint64_t>(std::min(1.0, 2 * inside) * static_cast<double>(elements));
}

}  // namespace

Buckets::Buckets(int32_t from, uint32_t count) noexcept : first(from), span(count), shift(0) {
  const auto bits = static_cast<uint32_t>(std::bit_width(count - 1));
  if (bits > kBucketBits) shift = bits - kBucketBits;
}

Buckets Buckets::within(uint32_t bucket) const noexcept {
  const uint32_t begin = bucket << shift;
  return {first + static_cast<int32_t>(begin), std::min(uint32_t{1} << shift, span - begin)};
}

SelectionPlan::SelectionPlan(uint64_t elements, uint64_t k) noexcept
    : ranges(std::clamp<uint64_t>(elements / (16 * kScanTile), 1, kMaxRanges)),
      sampled(sample_size(elements)),
      survivors(survivors_to_hold(elements, k, sampled)) {
  constexpr uint64_t kInFull = Survivors::kCapacity - 64;  // a chunk is left with more than that
  const uint64_t sample_bytes = sampled * sizeof(int32_t);
  chunks = std::max(survivors / kInFull + 1 + ranges, sample_bytes / sizeof(Survivors) + 1);
  const uint64_t words = (elements + 63) / 64;
  bytes = 0;
  const auto part = [this](uint64_t size) {
    const size_t begin = bytes;
    bytes += (static_cast<size_t>(size) + 255) / 256 * 256;
    return begin;
  };
  above = part(words * sizeof(uint64_t));
  ties = part(words * sizeof(uint64_t));
  tied_tile = part((elements + kScanTile - 1) / kScanTile);
  histograms = part(ranges * kBuckets * sizeof(uint32_t));
  pool = part(chunks * sizeof(Survivors));
}

ChangeSelection::ChangeSelection(const Change& change, uint64_t k, void* workspace,
                                 Workers* workers) noexcept
    : change_(change),
      elements_(table_elements(change.table)),
      k_(k),
      plan_(elements_, k),
      workspace_(static_cast<std::byte*>(workspace)),
      workers_(workers),
      size_(workers == nullptr
                ? 1
                : static_cast<uint32_t>(std::min<uint64_t>(workers->size(), plan_.ranges))),
      bits_{reinterpret_cast<uint64_t*>(workspace_ + plan_.above),
            reinterpret_cast<uint64_t*>(workspace_ + plan_.ties),
            reinterpret_cast<uint8_t*>(workspace_ + plan_.tied_tile)} {
  const uint64_t tiles = (elements_ + kScanTile - 1) / kScanTile;
  auto* const histograms = reinterpret_cast<uint32_t*>(workspace_ + plan_.histograms);
  for (uint32_t r = 0; r < size_; ++r) {
    ranges_[r].begin = tiles * r / size_ * kScanTile;
    ranges_[r].end = std::min(elements_, tiles * (r + 1) / size_ * kScanTile);
    ranges_[r].histogram = histograms + uint64_t{r} * kBuckets;
  }
}

template <typename Task>
void ChangeSelection::for_each_range(const Task& task) noexcept {
  if (size_ == 1) return task(ranges_[0], 0);
  struct Context {
    ChangeSelection* self;
    const Task* task;
  } context = {this, &task};
  workers_->run(
      [](void* opaque, uint32_t index) {
        const auto& from = *static_cast<Context*>(opaque);
        if (index < from.self->size_) (*from.task)(from.self->ranges_[index], index);
      },
      &context);
}

int32_t* ChangeSelection::draw_sample(uint64_t size) noexcept {
  auto* const sample = reinterpret_cast<int32_t*>(workspace_ + plan_.pool);
  for_each_range([&](const SelectionRange&, uint64_t r) {
    sample_scores(change_, elements_, size, size * r / size_, size * (r + 1) / size_, sample);
  });
  return sample;
}

Bracket ChangeSelection::sampled_bracket() noexcept {
  if (plan_.sampled == 0) return {};
  int32_t* const sample = draw_sample(plan_.sampled);
  const double rank = share() * static_cast<double>(plan_.sampled);
  const double margin = sample_margin(plan_.sampled, share());
  return bracket_of_sample(sample, plan_.sampled, rank - margin, rank + margin,
                           ranges_[0].histogram);
}

std::optional<Bracket> ChangeSelection::guessed_bracket(float score) noexcept {
  constexpr float kAround = 1.0F / 64;  // as wide as a sample's bracket of normal scores, or so
  if (!(score > 0) || !std::isfinite(score) || plan_.sampled == 0) return std::nullopt;
  const Bracket bracket = {static_cast<int32_t>(bits_of(score - score * kAround)),
                           static_cast<int32_t>(bits_of(score + score * kAround))};
  const uint64_t size = plan_.sampled / 8;
  const int32_t* const sample = draw_sample(size);
  uint64_t above = 0, from_low = 0;
  for (uint64_t i = 0; i < size; ++i) {
    above += sample[i] > bracket.high ? 1 : 0;
    from_low += sample[i] >= bracket.low ? 1 : 0;
  }
  const double rank = share() * static_cast<double>(size);
  const double margin = 3 * std::sqrt(rank * (1 - share()));  // to be wrong here costs a sample
  const bool refuted =
      static_cast<double>(above) > rank + margin || static_cast<double>(from_low) < rank - margin;
  return refuted ? std::nullopt : std::optional(bracket);
}

bool ChangeSelection::collect(const Bracket& bracket) noexcept {
  ++passes_;
  bracket_ = bracket;
  pool_.reset(reinterpret_cast<Survivors*>(workspace_ + plan_.pool),
              static_cast<uint32_t>(plan_.chunks));
  for (uint32_t r = 0; r < size_; ++r) {
    SelectionRange& range = ranges_[r];
    range.above_low = range.inside = range.at_high = range.at_low = 0;
    range.survivors = pool_.take();
  }
  const Scan scan = {&change_, bracket_, bits_, &pool_};
  for_each_range([&](SelectionRange& range, uint32_t) { scan_range(scan, range); });
  if (pool_.exhausted()) return false;
  const SelectionRange all = total();
  return all.above_low - all.inside - all.at_high < k_ && all.above_low + all.at_low >= k_;
}

SelectionRange ChangeSelection::total() const noexcept {
  SelectionRange all;
  for (uint32_t r = 0; r < size_; ++r) {
    all.above_low += ranges_[r].above_low;
    all.inside += ranges_[r].inside;
    all.at_high += ranges_[r].at_high;
    all.at_low += ranges_[r].at_low;
  }
  return all;
}

uint32_t ChangeSelection::find_bucket(uint64_t& rank, uint64_t& in_bucket) const noexcept {
  for (uint32_t bucket = kBuckets - 1;; --bucket) {
    in_bucket = 0;
    for (uint32_t r = 0; r < size_; ++r) in_bucket += ranges_[r].histogram[bucket];
    if (in_bucket >= rank || bucket == 0) return bucket;
    rank -= in_bucket;
  }
}

Bracket ChangeSelection::exact_bracket() noexcept {
  Buckets buckets(0, kScoreLimit);
  for (uint64_t rank = k_;;) {
    ++passes_;
    for_each_range([&](SelectionRange& range, uint32_t) {
      std::fill_n(range.histogram, kBuckets, 0);
      count_range(change_, buckets, range);
    });
    uint64_t in_bucket;
    const uint32_t bucket = find_bucket(rank, in_bucket);
    const bool single = buckets.shift == 0;
    buckets = buckets.within(bucket);
    if (single) return {buckets.first, buckets.first};
    if (in_bucket > plan_.survivors) continue;
    return {buckets.first - 1, buckets.first + static_cast<int32_t>(buckets.span)};
  }
}

// Each range learns how many of its own are above the threshold, and at it.
int32_t ChangeSelection::nth_inside(uint64_t rank, uint64_t& ties) noexcept {
  for (uint32_t r = 0; r < size_; ++r) ranges_[r].inside_above = 0;
  Buckets buckets(bracket_.low + 1, static_cast<uint32_t>(bracket_.high - bracket_.low - 1));
  for (;;) {
    for_each_range([&](SelectionRange& range, uint32_t) {
      std::fill_n(range.histogram, kBuckets, 0);
      for (const Survivors* chunk = range.survivors; chunk != nullptr; chunk = chunk->next) {
        for (uint32_t i = 0; i < chunk->count; ++i) buckets.add(chunk->scores[i], range.histogram);
      }
    });
    uint64_t in_bucket;
    const uint32_t bucket = find_bucket(rank, in_bucket);
    for (uint32_t r = 0; r < size_; ++r) {
      SelectionRange& range = ranges_[r];
      for (uint32_t b = bucket + 1; b < kBuckets; ++b) range.inside_above += range.histogram[b];
      range.ties = range.histogram[bucket];
    }
    const bool single = buckets.shift == 0;
    buckets = buckets.within(bucket);
    if (!single) continue;
    ties = rank;
    return buckets.first;
  }
}

// The ties that are taken are those of the lowest indices.
void ChangeSelection::share_out(Place place, uint64_t ties) noexcept {
  uint64_t out = 0;
  for (uint32_t r = 0; r < size_; ++r) {
    SelectionRange& range = ranges_[r];
    const uint64_t winners = range.above_low - range.inside - range.at_high;
    const uint64_t here = place == Place::kHigh  ? range.at_high
                          : place == Place::kLow ? range.at_low
                                                 : range.ties;
    const uint64_t surely = place == Place::kHigh  ? winners
                            : place == Place::kLow ? range.above_low
                                                   : winners + range.at_high + range.inside_above;
    range.ties = std::min(here, ties);
    ties -= range.ties;
    range.selected = surely + range.ties;
    range.first_out = out;
    out += range.selected;
  }
}

int32_t ChangeSelection::finish(uint32_t* indices) noexcept {
  const SelectionRange all = total();
  const uint64_t winners = all.above_low - all.inside - all.at_high;
  int32_t threshold;
  if (k_ <= winners + all.at_high) {
    threshold = bracket_.high;
    share_out(Place::kHigh, k_ - winners);
  } else if (k_ <= all.above_low) {
    uint64_t ties;
    threshold = nth_inside(k_ - winners - all.at_high, ties);
    share_out(Place::kInside, ties);
  } else {
    threshold = bracket_.low;
    share_out(Place::kLow, k_ - all.above_low);
  }
  const Emission emission = {bits_, bracket_, threshold, indices};
  for_each_range([&](SelectionRange& range, uint32_t) { emit_range(emission, range); });
  return threshold;
}

}  // namespace asyncmesh::kernels
