// A parameter table of random shapes and values for the kernel tests, and the subset computed the
// naive way: block by block, from the definition in kernels.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {

struct Element {
  uint32_t tensor;
  uint64_t index;  // within the tensor
  uint64_t flat;   // within the table
  uint64_t block;
};

class RandomTable {
 public:
  // Tensors lie in one buffer with odd gaps, so that most of them are aligned to 4 bytes only.
  RandomTable(const std::vector<uint64_t>& counts, uint32_t granularity, uint64_t seed)
      : granularity_(granularity), state_(seed) {
    uint64_t size = 1;
    for (const uint64_t count : counts) size += count + 3;
    storage_.resize(size);
    randomise();
    uint64_t offset = 1;
    for (const uint64_t count : counts) {
      views_.push_back({storage_.data() + offset, count, blocks_});
      blocks_ += (count + granularity - 1) / granularity;
      elements_ += count;
      offset += count + 3;
    }
  }

  void randomise() {
    for (float& value : storage_) value = next();
  }

  std::vector<float> random_values(uint64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = next();
    return values;
  }

  Subset subset(uint64_t key, uint32_t parts, uint32_t part) const {
    return {key, blocks_, parts, part, granularity_, UINT64_MAX};
  }
  // The first `limit` blocks of the permutation.
  Subset first_blocks(uint64_t key, uint64_t limit) const {
    return {key, blocks_, 1, 0, granularity_, limit};
  }

  std::vector<Element> elements_of(const Subset& subset) const {
    std::vector<std::vector<Element>> by_position((blocks_ + subset.parts - 1) / subset.parts);
    uint64_t before = 0;
    for (uint32_t t = 0; t < size(); ++t) {
      const uint64_t count = views_[t].count;
      for (uint64_t begin = 0; begin < count; begin += granularity_) {
        const uint64_t block = views_[t].first_block + begin / granularity_;
        const uint64_t position = permute(subset.key, subset.blocks, block);
        if (position % subset.parts != subset.part) continue;
        if (position / subset.parts >= subset.limit) continue;
        for (uint64_t i = begin; i < std::min(count, begin + granularity_); ++i) {
          by_position[position / subset.parts].push_back({t, i, before + i, block});
        }
      }
      before += count;
    }
    std::vector<Element> elements;
    for (const auto& block : by_position)
      elements.insert(elements.end(), block.begin(), block.end());
    return elements;
  }

  float& at(const Element& element) { return views_[element.tensor].floats()[element.index]; }
  const TensorView* views() const { return views_.data(); }
  ParameterTable table() const { return {views_.data(), size(), Encoding::kFloat32}; }
  uint32_t size() const { return static_cast<uint32_t>(views_.size()); }
  uint64_t blocks() const { return blocks_; }
  uint64_t elements() const { return elements_; }
  const std::vector<float>& storage() const { return storage_; }

 private:
  // Uniform in [-4, 4), all 24 bits of the mantissa in use. Cheap, for debug and sanitizer builds.
  float next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32) >> 7) * 0x1p-22F;
  }

  uint32_t granularity_;
  uint64_t state_;
  std::vector<float> storage_;
  std::vector<TensorView> views_;
  uint64_t blocks_ = 0;
  uint64_t elements_ = 0;
};

// Empty, single-element, just below, at and above multiples of common granularities, and enough
// tensors that buckets of block numbers hold several.
inline std::vector<uint64_t> awkward_counts() {
  std::vector<uint64_t> counts = {0, 1, 63, 64, 65, 0, 127, 128, 1000, 1, 1, 7, 4096, 100, 99, 0};
  for (uint64_t i = 0; i < 300; ++i) counts.push_back(i * 37 % 150);
  return counts;
}

}  // namespace asyncmesh::kernels
