#include "averaging/round.h"

namespace asyncmesh {

RoundRing::RoundRing(uint32_t capacity, uint64_t max_elements, kernels::Encoding encoding)
    : rounds_(capacity), snapshots_(capacity * max_elements) {
  constexpr size_t kCacheLine = 64;
  const size_t encoded =
      kernels::lossless(encoding)
          ? 0
          : (kernels::encoded_bytes(encoding, max_elements) + kCacheLine - 1) & ~(kCacheLine - 1);
  encoded_.resize(capacity * encoded);
  for (size_t i = 0; i < rounds_.size(); ++i) {
    rounds_[i].snapshot = snapshots_.data() + i * max_elements;
    rounds_[i].own = encoded == 0 ? reinterpret_cast<std::byte*>(rounds_[i].snapshot)
                                  : encoded_.data() + i * encoded;
  }
}

void RoundRing::pop() {
  head_ = (head_ + 1) % rounds_.size();
  --count_;
}

}  // namespace asyncmesh
