#include <algorithm>
#include <cfenv>
#include <cmath>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/rows.h"

namespace asyncmesh::kernels {
namespace {

// The default floating-point environment for a scope. Libraries linked with -ffast-math, or the
// trainer itself, may have set this thread to flush subnormals to zero; replicas that differ in it
// would compute different means.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

// The contributions that take part, in member order.
struct Taking {
  const std::byte* values[kMaxMembers];
  float weights[kMaxMembers];
  uint32_t members[kMaxMembers];
  uint32_t size = 0;
  Encoding encoding;
  uint64_t count;

  const std::byte* at(uint32_t i, uint64_t element) const {
    return values[i] + encoded_bytes(encoding, element);
  }
  float reciprocal() const {
    double sum = 0;
    for (uint32_t i = 0; i < size; ++i) sum += static_cast<double>(weights[i]);
    return static_cast<float>(1.0 / sum);
  }
};

// Reads every value once: a tile is checked, which brings it into the second-level cache, and
// added. Shorter tiles restart the hardware prefetcher too often (8 contributions of 8 Mi bf16
// values: 18 ms with tiles of 4096, 10.5 ms with these). False: a value is not finite, `mean` is
// half written.
template <bool kCheck>
bool average_tiles(const Rows& row, const Taking& from, float* mean) {
  constexpr uint64_t kTile = 16384;
  const DefaultFloatEnvironment environment;
  const float reciprocal = from.reciprocal();
  for (uint64_t begin = 0; begin < from.count; begin += kTile) {
    const uint64_t length = std::min(kTile, from.count - begin);
    for (uint32_t i = 0; i < from.size; ++i) {
      const std::byte* values = from.at(i, begin);
      if (kCheck && !row.all_finite(values, length, from.encoding)) return false;
      (i == 0 ? row.weigh : row.add_weighed)(values, length, from.encoding, from.weights[i],
                                             mean + begin);
    }
    row.multiply(mean + begin, length, reciprocal);
  }
  return true;
}

// Drops the contributions with a value that is not finite; returns their members as bits.
[[gnu::cold]] uint64_t drop_not_finite(const Rows& row, Taking& from) {
  uint64_t dropped = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < from.size; ++i) {
    if (!row.all_finite(from.values[i], from.count, from.encoding)) {
      dropped |= uint64_t{1} << from.members[i];
      continue;
    }
    from.values[kept] = from.values[i];
    from.weights[kept] = from.weights[i];
    from.members[kept++] = from.members[i];
  }
  from.size = kept;
  return dropped;
}

}  // namespace

uint32_t cpu_average(const Contributions& all, uint64_t count, float* mean,
                     uint64_t* not_finite_out, const Execution& /*on*/) {
  const Rows& row = rows();
  Taking from;
  from.encoding = all.encoding;
  from.count = count;
  for (uint32_t r = 0; r < std::min(all.members, kMaxMembers); ++r) {
    const float weight = all.weights[r];
    if (all.values[r] == nullptr || !(weight > 0) || !std::isfinite(weight)) continue;
    from.values[from.size] = all.values[r];
    from.weights[from.size] = weight;
    from.members[from.size++] = r;
  }
  *not_finite_out = 0;
  if (from.size >= 2 && average_tiles<true>(row, from, mean)) return from.size;
  *not_finite_out = drop_not_finite(row, from);
  if (from.size >= 2) average_tiles<false>(row, from, mean);
  return from.size;
}

}  // namespace asyncmesh::kernels
