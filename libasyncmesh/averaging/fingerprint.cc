#include "averaging/fingerprint.h"

#include <bit>

#include "base/random.h"

namespace asyncmesh {
namespace {

// Order matters: each value keys the draw of the next.
class Hash {
 public:
  void add(uint64_t value) noexcept { state_ = mix(state_, value); }
  uint64_t value() const noexcept { return state_; }

 private:
  uint64_t state_ = 0x4153594E434D4553ULL;
};

}  // namespace

uint64_t table_fingerprint(std::span<const TensorIdentity> tensors) noexcept {
  Hash hash;
  hash.add(tensors.size());
  for (const TensorIdentity& tensor : tensors) {
    hash.add(tensor.id);
    hash.add(tensor.count);
    hash.add(tensor.dtype);
    hash.add(tensor.layout);
  }
  return hash.value();
}

uint64_t group_fingerprint(std::span<const TensorIdentity> tensors, uint32_t members,
                           const AveragerConfig& config) noexcept {
  Hash hash;
  hash.add(table_fingerprint(tensors));
  hash.add(members);
  hash.add(static_cast<uint64_t>(config.selection));
  hash.add(std::bit_cast<uint64_t>(config.fraction));
  hash.add(config.granularity);
  hash.add(static_cast<uint64_t>(config.rule));
  hash.add(static_cast<uint64_t>(config.mode));
  hash.add(config.window);
  hash.add(static_cast<uint64_t>(config.redraw));
  hash.add(config.seed);
  hash.add(config.group_key);
  hash.add(static_cast<uint64_t>(config.encoding));
  hash.add(static_cast<uint64_t>(config.rounding));
  return hash.value();
}

}  // namespace asyncmesh
