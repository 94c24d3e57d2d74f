// sum_of_squares and compare: sums over whole tables in double.
//
// The elements are cut into tiles, whose number and size follow from the number of elements alone.
// Within a run of a tile sixteen partial sums take the elements in turn and are folded in halves:
// an order that every vector width can keep. Tiles are folded in their order by the caller, so that
// neither the instruction set nor the number of threads shows. A square of an fp32 is exact.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sums.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include "kernels/cpu/codec-inl.h"
#include "kernels/cpu/dense.h"
#include "kernels/cpu/element_cursor.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/spread.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

constexpr size_t kSumLanes = 16;
constexpr uint64_t kAhead = 2048;  // elements

// Sixteen sums in as many vectors as it takes.
class Sums {
 public:
  using Tag = hn::CappedTag<double, kSumLanes>;
  using Vector = hn::VFromD<Tag>;
  static constexpr size_t kLanes = hn::MaxLanes(Tag());
  static constexpr size_t kVectors = kSumLanes / kLanes;

  HWY_INLINE Sums() {
    for (Vector& sum : sums_) sum = hn::Zero(Tag());
  }
  HWY_INLINE void add(size_t vector, Vector value) {
    sums_[vector] = hn::Add(sums_[vector], value);
  }
  // The product of two fp32 is exact, so that an fma rounds as a product and a sum do.
  HWY_INLINE void add_product(size_t vector, Vector a, Vector b) {
    sums_[vector] = hn::MulAdd(a, b, sums_[vector]);
  }
  HWY_INLINE double fold() const {
    HWY_ALIGN double lanes[kSumLanes];
    for (size_t i = 0; i < kVectors; ++i) hn::Store(sums_[i], Tag(), lanes + i * kLanes);
    for (size_t half = kSumLanes / 2; half != 0; half /= 2) {
      for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }

 private:
  Vector sums_[kVectors];
};

template <class Format>
HWY_INLINE Sums::Vector doubles(const std::byte* at) {
  const Sums::Tag d;
  return hn::PromoteTo(d, Format::load(hn::Rebind<float, Sums::Tag>(), at));
}

double sum_of_squares_here(const float* values, uint64_t count) {
  Sums sums;
  const auto add = [&](const float* sixteen) HWY_ATTR {
    for (size_t i = 0; i < Sums::kVectors; ++i) {
      const auto* const at = reinterpret_cast<const std::byte*>(sixteen + i * Sums::kLanes);
      const auto value = doubles<Float32>(at);
      sums.add(i, hn::Mul(value, value));
    }
  };
  uint64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    // The hardware alone does not keep enough reads of one stream in flight.
    if (count - i > kAhead) prefetch_line(reinterpret_cast<const std::byte*>(values + i + kAhead));
    add(values + i);
  }
  if (i < count) {
    float last[kSumLanes] = {};
    __builtin_memcpy(last, values + i, static_cast<size_t>(count - i) * sizeof(float));
    add(last);
  }
  return sums.fold();
}

struct ComparisonSums {
  // Spelled out: an implicit one would not be compiled for the target.
  HWY_INLINE ComparisonSums() {}

  Sums squared_distance, dot, first, second;

  template <class First, class Second>
  HWY_INLINE void add(const std::byte* first_at, const std::byte* second_at) {
    for (size_t i = 0; i < Sums::kVectors; ++i) {
      const auto a = doubles<First>(first_at + i * Sums::kLanes * First::kBytes);
      const auto b = doubles<Second>(second_at + i * Sums::kLanes * Second::kBytes);
      const auto distance = hn::Sub(a, b);
      squared_distance.add(i, hn::Mul(distance, distance));
      dot.add_product(i, a, b);
      first.add_product(i, a, a);
      second.add_product(i, b, b);
    }
  }
};

// Adds a run of both tables to *into.
struct CompareRun {
  const std::byte* first;
  const std::byte* second;
  uint64_t count;
  Comparison* into;

  template <class First, class Second>
  HWY_INLINE void run() const {
    ComparisonSums sums;
    uint64_t i = 0;
    for (; i + kSumLanes <= count; i += kSumLanes) {
      sums.add<First, Second>(first + i * First::kBytes, second + i * Second::kBytes);
    }
    if (i < count) {
      std::byte last[2][kSumLanes * sizeof(float)] = {};
      const auto rest = static_cast<size_t>(count - i);
      __builtin_memcpy(last[0], first + i * First::kBytes, rest * First::kBytes);
      __builtin_memcpy(last[1], second + i * Second::kBytes, rest * Second::kBytes);
      sums.add<First, Second>(last[0], last[1]);
    }
    into->squared_distance += sums.squared_distance.fold();
    into->dot += sums.dot.fold();
    into->first += sums.first.fold();
    into->second += sums.second.fold();
  }
};

template <class First>
struct CompareSecond {
  const CompareRun& call;
  template <class Second>
  HWY_INLINE void run() const {
    call.run<First, Second>();
  }
};

struct CompareFirst {
  const CompareRun& call;
  Encoding second;
  template <class First>
  HWY_INLINE void run() const {
    with_format(second, CompareSecond<First>{call});
  }
};

// Tiles [from, to) of `tile` elements, of which there are `elements` in all.
void compare_here(const ParameterTable& first, const ParameterTable& second, uint64_t tile,
                  uint64_t from, uint64_t to, uint64_t elements, Comparison* tiles) {
  ElementCursor in_first(first), in_second(second);
  for (uint64_t t = from; t < to; ++t) {
    tiles[t] = {0, 0, 0, 0};
    const uint64_t end = (t + 1) * tile < elements ? (t + 1) * tile : elements;
    for (uint64_t at = t * tile; at < end;) {
      in_first.seek(at);
      in_second.seek(at);
      const uint64_t next = in_first.end() < end ? in_first.end() : end;
      const CompareRun run = {in_first.at(at), in_second.at(at), next - at, tiles + t};
      with_format(first.storage, CompareFirst{run, second.storage});
      at = next;
    }
  }
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(sum_of_squares_here);
HWY_EXPORT(compare_here);

constexpr uint64_t kLeastTile = 1U << 16;
constexpr uint64_t kSumTiles = kSumSlots - 1;          // sums[0] is the result
constexpr uint64_t kCompareTiles = kSumSlots / 4 - 1;  // so are the first four
static_assert(sizeof(Comparison) == 4 * sizeof(double));

// The least power of two that needs no more than `most` tiles.
uint64_t tile_size(uint64_t elements, uint64_t most) {
  uint64_t tile = kLeastTile;
  while (elements > tile * most) tile *= 2;
  return tile;
}

uint64_t tiles_of(uint64_t elements, uint64_t tile) { return (elements + tile - 1) / tile; }

}  // namespace

void cpu_sum_of_squares(const float* values, uint64_t count, double* sums, const Execution& on) {
  const uint64_t tile = tile_size(count, kSumTiles), tiles = tiles_of(count, tile);
  spread(on.workers, tiles, 1, [&](uint64_t from, uint64_t to) {
    for (uint64_t t = from; t < to; ++t) {
      const uint64_t left = count - t * tile;
      sums[1 + t] =
          HWY_DYNAMIC_DISPATCH(sum_of_squares_here)(values + t * tile, left < tile ? left : tile);
    }
  });
  double total = 0;
  for (uint64_t t = 0; t < tiles; ++t) total += sums[1 + t];
  sums[0] = total;
}

void cpu_compare(const ParameterTable& first, const ParameterTable& second, double* sums,
                 const Execution& on) {
  const uint64_t elements = table_elements(first);
  const uint64_t tile = tile_size(elements, kCompareTiles), tiles = tiles_of(elements, tile);
  auto* const results = reinterpret_cast<Comparison*>(sums);
  Comparison* const of_tiles = results + 1;
  spread(on.workers, tiles, 1, [&](uint64_t from, uint64_t to) {
    HWY_DYNAMIC_DISPATCH(compare_here)(first, second, tile, from, to, elements, of_tiles);
  });
  Comparison total = {0, 0, 0, 0};
  for (uint64_t t = 0; t < tiles; ++t) {
    total.squared_distance += of_tiles[t].squared_distance;
    total.dot += of_tiles[t].dot;
    total.first += of_tiles[t].first;
    total.second += of_tiles[t].second;
  }
  *results = total;
}

}  // namespace asyncmesh::kernels
#endif
