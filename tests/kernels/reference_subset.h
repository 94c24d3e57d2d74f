// The rotating subset the plain way: value by value, from the definitions in kernels.h.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/element.h"
#include "kernels/encoding.h"
#include "kernels/kernels.h"
#include "tests/kernels/random_table.h"

namespace asyncmesh::kernels::reference {

inline float stored(const std::byte* at, Encoding storage) {
  if (storage == Encoding::kFloat32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint16_t word;
  std::memcpy(&word, at, sizeof(word));
  return storage == Encoding::kBfloat16 ? from_bfloat16(word) : from_float16(word);
}

inline void store(float value, Encoding storage, std::byte* at) {
  if (storage == Encoding::kFloat32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  const uint16_t word = storage == Encoding::kBfloat16 ? to_bfloat16(value) : to_float16(value);
  std::memcpy(at, &word, sizeof(word));
}

// A table of any storage with the shapes of a RandomTable, and random values. `shift` words in
// front of the first tensor decide how it is aligned.
class StoredTable {
 public:
  StoredTable(const RandomTable& shapes, Encoding storage, uint64_t seed, uint64_t shift)
      : storage_(storage), memory_(encoded_bytes(storage, shapes.elements() + shift + 64) + kLine) {
    uint64_t offset =
        shift + (kLine - reinterpret_cast<uintptr_t>(memory_.data()) % kLine) % kLine / word();
    for (uint32_t i = 0; i < shapes.size(); ++i) {
      TensorView view = shapes.views()[i];
      view.data = memory_.data() + offset * word();
      offset += view.count;
      views_.push_back(view);
    }
    std::mt19937 generator(static_cast<uint32_t>(seed));
    std::normal_distribution<float> normal;
    for (const TensorView& view : views_) {
      for (uint64_t i = 0; i < view.count; ++i) {
        store(normal(generator), storage, static_cast<std::byte*>(view.data) + i * word());
      }
    }
  }

  ParameterTable table() const {
    return {views_.data(), static_cast<uint32_t>(views_.size()), storage_};
  }
  float get(const Element& element) const { return stored(at(element), storage_); }
  void set(const Element& element, float value) { store(value, storage_, at(element)); }
  // The bytes of all tensors and of what lies around them.
  const std::vector<std::byte>& memory() const { return memory_; }
  void restore(const std::vector<std::byte>& bytes) {
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
  }

 private:
  static constexpr uint64_t kLine = 64;
  size_t word() const { return encoded_bytes(storage_, 1); }
  std::byte* at(const Element& element) const {
    return static_cast<std::byte*>(views_[element.tensor].data) + element.index * word();
  }

  Encoding storage_;
  std::vector<std::byte> memory_;
  std::vector<TensorView> views_;
};

inline float reciprocal(const std::vector<float>& weights) {
  double sum = 0;
  for (const float weight : weights) sum += static_cast<double>(weight);
  return static_cast<float>(1.0 / sum);
}

struct ApplyInputs {
  const std::vector<float>& snapshot;
  const std::vector<float>& mean;
  const std::vector<float>* own;  // decoded; null: lossless
};

// `ema` and `visited` as in ApplyArrays; the new w is returned in subset order, unrounded.
inline std::vector<float> applied(const StoredTable& table, const std::vector<Element>& elements,
                                  const ApplyArgs& args, const ApplyInputs& inputs,
                                  std::vector<float>& ema, std::vector<uint64_t>& visited) {
  std::vector<float> result(elements.size());
  const std::vector<uint64_t> before = visited;
  for (size_t i = 0; i < elements.size(); ++i) {
    const Element& element = elements[i];
    const float drift = table.get(element) - inputs.snapshot[i];
    const float gain = 1.0F - args.momentum;
    const uint64_t bit = uint64_t{1} << (element.block % 64);
    const bool first = (before[element.block / 64] & bit) == 0;
    float step = drift;
    if (args.rule == Rule::kEma) {
      float& e = ema[element.flat];
      const ApplyFactors factors = {args.momentum, first && args.first_visit_full ? 1.0F : gain, 1};
      step = e = first ? ema_first(factors, drift) : ema_next(factors, e, drift);
      visited[element.block / 64] |= bit;
    }
    const float target = inputs.own == nullptr
                             ? inputs.mean[i]
                             : lossy_target(inputs.snapshot[i], inputs.mean[i], (*inputs.own)[i]);
    result[i] = args.rule == Rule::kAverage ? target : corrected({0, 0, args.scale}, target, step);
  }
  return result;
}

}  // namespace asyncmesh::kernels::reference
