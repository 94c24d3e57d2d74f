// Explicit indices the plain way, from the definitions in selection.h; and tables to try them on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels/encoding.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels::reference {

inline float stored(float value, Encoding storage) {
  if (storage == Encoding::kFloat32) return value;
  if (storage == Encoding::kBfloat16) return from_bfloat16(to_bfloat16(value));
  return from_float16(to_float16(value));
}

// Tensors in one buffer with odd gaps, so that most are aligned to one element only.
class StoredTable {
 public:
  StoredTable(const std::vector<uint64_t>& counts, Encoding storage)
      : storage_(storage), width_(encoded_bytes(storage, 1)) {
    size_t offset = width_;
    std::vector<size_t> offsets;
    for (const uint64_t count : counts) {
      offsets.push_back(offset);
      offset += (count + 3) * width_;
    }
    bytes_.resize(offset);
    for (size_t t = 0; t < counts.size(); ++t) {
      views_.push_back({bytes_.data() + offsets[t], counts[t], elements_});
      for (uint64_t i = 0; i < counts[t]; ++i) places_.push_back(offsets[t] + i * width_);
      elements_ += counts[t];
    }
  }
  StoredTable(const StoredTable&) = delete;
  StoredTable& operator=(const StoredTable&) = delete;

  ParameterTable table() const {
    return {views_.data(), static_cast<uint32_t>(views_.size()), storage_};
  }
  uint64_t elements() const { return elements_; }
  float get(uint64_t element) const {
    float value;
    uint16_t word;
    std::memcpy(&value, bytes_.data() + places_[element], storage_ == Encoding::kFloat32 ? 4 : 0);
    if (storage_ == Encoding::kFloat32) return value;
    std::memcpy(&word, bytes_.data() + places_[element], sizeof(word));
    return storage_ == Encoding::kBfloat16 ? from_bfloat16(word) : from_float16(word);
  }
  void set(uint64_t element, float value) {
    const uint16_t word = storage_ == Encoding::kBfloat16 ? to_bfloat16(value) : to_float16(value);
    const bool wide = storage_ == Encoding::kFloat32;
    std::memcpy(bytes_.data() + places_[element], wide ? static_cast<const void*>(&value) : &word,
                width_);
  }
  // What lies between the tensors included.
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  Encoding storage_;
  size_t width_;
  std::vector<std::byte> bytes_;
  std::vector<size_t> places_;
  std::vector<TensorView> views_;
  uint64_t elements_ = 0;
};

// Tensors of all kinds of sizes that together have so many elements.
inline std::vector<uint64_t> shapes(uint64_t elements, uint64_t seed) {
  std::vector<uint64_t> counts = {0};
  for (uint64_t i = seed; elements != 0; ++i) {
    const uint64_t sizes[] = {1, 63, 0, 4096, 64, 7, 100000, 65, 129, 5000};
    counts.push_back(std::min(elements, sizes[i % std::size(sizes)]));
    elements -= counts.back();
  }
  counts.push_back(0);
  return counts;
}

inline std::vector<float> scores(const StoredTable& w, const std::vector<float>& reference,
                                 const std::vector<float>& weight) {
  std::vector<float> result(w.elements());
  for (uint64_t i = 0; i < result.size(); ++i) {
    const float score = std::fabs(w.get(i) - reference[i]) * (weight.empty() ? 1.0F : weight[i]);
    result[i] = std::isfinite(score) ? score : 0.0F;
  }
  return result;
}

inline std::vector<uint32_t> top(const std::vector<float>& scores, uint64_t k) {
  std::vector<uint32_t> indices(scores.size());
  std::iota(indices.begin(), indices.end(), 0U);
  std::sort(indices.begin(), indices.end(), [&](uint32_t a, uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  indices.resize(k);
  std::sort(indices.begin(), indices.end());
  return indices;
}

// A bit at a time; empty when the stream is not valid (`count` > 0).
inline std::vector<uint32_t> decoded(const std::vector<std::byte>& stream, uint64_t count,
                                     uint64_t elements) {
  const uint64_t blocks = (count + kIndexBlock - 1) / kIndexBlock;
  std::vector<uint32_t> words(stream.size() / 4), indices;
  if (!words.empty()) std::memcpy(words.data(), stream.data(), words.size() * 4);
  if (stream.size() % 4 != 0 || words.size() < 2 * blocks) return {};
  for (uint64_t block = 0; block < blocks; ++block) {
    const uint64_t begin = block == 0 ? 0 : words[block * 2 - 1], end = words[block * 2 + 1];
    if (end < begin || (end - begin) % 4 != 0 || end - begin > 128) return {};
    if (blocks * 2 + end > words.size()) return {};
    const uint64_t width = (end - begin) / 4;
    uint64_t index = words[block * 2];
    for (uint64_t i = 0; i < kIndexBlock && indices.size() < count; ++i) {
      uint64_t gap = 0;
      for (uint64_t b = 0; b < width; ++b) {
        const uint64_t bit = i * width + b;
        gap |= uint64_t{words[blocks * 2 + begin + bit / 32] >> bit % 32 & 1} << b;
      }
      if (i == 0 && gap != 0) return {};
      if (i != 0) index += gap + 1;
      if (index >= std::min(elements, kMaxSelectable)) return {};
      if (!indices.empty() && index <= indices.back()) return {};
      indices.push_back(static_cast<uint32_t>(index));
    }
  }
  if (blocks * 2 + words[blocks * 2 - 1] != words.size()) return {};
  return indices;
}

}  // namespace asyncmesh::kernels::reference
