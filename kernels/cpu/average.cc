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

struct Contribution {
  const std::byte* values;
  float weight;
};

}  // namespace

uint32_t cpu_average(const std::byte* const* values, const float* weights, uint32_t members,
                     Encoding encoding, uint64_t count, float* mean, uint64_t* not_finite_out,
                     void* /*stream*/) {
  const Rows& row = rows();
  Contribution chosen[kMaxMembers];
  uint32_t averaged = 0;
  double weight_sum = 0;
  *not_finite_out = 0;
  for (uint32_t r = 0; r < std::min(members, kMaxMembers); ++r) {
    if (values[r] == nullptr || !(weights[r] > 0) || !std::isfinite(weights[r])) continue;
    if (!row.all_finite(values[r], count, encoding)) {
      *not_finite_out |= uint64_t{1} << r;
      continue;
    }
    chosen[averaged++] = {values[r], weights[r]};
    weight_sum += static_cast<double>(weights[r]);
  }
  if (averaged < 2) return averaged;

  // Tile by tile, so that the running sum stays in the first-level cache; not in `mean`, which may
  // be one of the contributions.
  constexpr uint64_t kTile = 1024;
  float sum[kTile];
  const DefaultFloatEnvironment environment;
  const auto reciprocal = static_cast<float>(1.0 / weight_sum);
  for (uint64_t begin = 0; begin < count; begin += kTile) {
    const uint64_t length = std::min(kTile, count - begin);
    const size_t skip = encoded_bytes(encoding, begin);
    row.weigh(chosen[0].values + skip, length, encoding, chosen[0].weight, sum);
    for (uint32_t r = 1; r < averaged; ++r) {
      row.add_weighed(chosen[r].values + skip, length, encoding, chosen[r].weight, sum);
    }
    row.multiply(sum, length, reciprocal, mean + begin);
  }
  return averaged;
}

}  // namespace asyncmesh::kernels
