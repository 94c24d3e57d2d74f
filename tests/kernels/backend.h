// Where the entries of cuda() run in this program: on the SIMT executor (backend_simt.cc) or on a
// GPU (backend_gpu.cc). Each has a main() that says which.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/encoding.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels::backend {

// Memory that host and kernels may touch, aligned to 256.
void* allocate(size_t bytes);
void release(void* memory);
// Waits for all launches; empty, or what went wrong since the last call.
std::string finish();

template <typename T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <typename U>
  Allocator(const Allocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(backend::allocate(count * sizeof(T))); }
  void deallocate(T* memory, size_t) { release(memory); }
  bool operator==(const Allocator&) const { return true; }
};

// What kernels read and write. As with any memory of a device: not touched before finish().
template <typename T>
using Array = std::vector<T, Allocator<T>>;

// Cheap, for debug and sanitizer builds; the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761U + 1) {}
  uint32_t bits() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint32_t>(state_ >> 32);
  }
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(uint64_t{bits()} * limit >> 32); }
  // In [-4, 4), all 24 bits of the mantissa in use.
  float value() { return static_cast<float>(static_cast<int32_t>(bits()) >> 7) * 0x1p-22F; }

 private:
  uint64_t state_;
};

inline Array<float> random_values(uint64_t count, uint64_t seed) {
  Random random(seed);
  Array<float> values(count);
  for (float& value : values) value = random.value();
  return values;
}
// Every kind of NaN, infinities and subnormals among them.
inline Array<float> random_bits(uint64_t count, uint64_t seed) {
  Random random(seed);
  Array<float> values(count);
  for (float& value : values) value = float_of(random.bits());
  return values;
}

enum class Layout { kOdd, kAligned };  // of tensors: to their elements only, or to 16 bytes

// A table of random values. Copies have storage of their own.
class Table {
 public:
  Table(const std::vector<uint64_t>& counts, uint32_t granularity, Encoding storage, Layout layout,
        uint64_t seed)
      : counts_(counts), granularity_(granularity), storage_(storage), layout_(layout) {
    const size_t size = encoded_bytes(storage, 1);
    uint64_t words = 16;
    for (const uint64_t count : counts) words += count + 16;
    bytes_.resize(words * size);
    Random random(seed);
    for (uint64_t i = 0; i < words; ++i) write(i, random.value());
    bind();
  }
  Table(const Table& other)
      : counts_(other.counts_),
        granularity_(other.granularity_),
        storage_(other.storage_),
        layout_(other.layout_),
        bytes_(other.bytes_) {
    bind();
  }

  ParameterTable view() const {
    return {views_.data(), static_cast<uint32_t>(views_.size()), storage_};
  }
  Subset subset(uint64_t key, uint32_t parts, uint32_t part) const {
    return {key, blocks_, parts, part, granularity_, UINT64_MAX};
  }
  // The first `limit` blocks of the permutation.
  Subset first_blocks(uint64_t key, uint64_t limit) const {
    return {key, blocks_, 1, 0, granularity_, limit};
  }
  // Element `element` of the table becomes `value`.
  void set(uint64_t element, float value) {
    uint64_t first = 0;
    for (const TensorView& view : views_) {
      if (element - first < view.count) {
        const size_t size = encoded_bytes(storage_, 1);
        const auto at = static_cast<size_t>(static_cast<std::byte*>(view.data) - bytes_.data());
        return write(at / size + element - first, value);
      }
      first += view.count;
    }
  }

  uint64_t blocks() const { return blocks_; }
  uint64_t elements() const { return elements_; }
  const Array<std::byte>& bytes() const { return bytes_; }

 private:
  void write(uint64_t word, float value) {
    if (storage_ == Encoding::kFloat32) {
      memcpy(bytes_.data() + word * 4, &value, 4);
      return;
    }
    const uint16_t half = storage_ == Encoding::kBfloat16 ? to_bfloat16(value) : to_float16(value);
    memcpy(bytes_.data() + word * 2, &half, 2);
  }
  void bind() {
    const size_t size = encoded_bytes(storage_, 1);
    uint64_t word = layout_ == Layout::kOdd ? 1 : 0;
    for (const uint64_t count : counts_) {
      views_.push_back({bytes_.data() + word * size, count, blocks_});
      blocks_ += (count + granularity_ - 1) / granularity_;
      elements_ += count;
      word += layout_ == Layout::kOdd ? count + 3 : (count + 7) / 8 * 8 + 8;
    }
  }

  std::vector<uint64_t> counts_;
  uint32_t granularity_;
  Encoding storage_;
  Layout layout_;
  Array<std::byte> bytes_;
  std::vector<TensorView> views_;
  uint64_t blocks_ = 0;
  uint64_t elements_ = 0;
};

inline constexpr Encoding kStorages[] = {Encoding::kFloat32, Encoding::kBfloat16,
                                         Encoding::kFloat16};
inline constexpr Encoding kEncodings[] = {Encoding::kFloat32, Encoding::kBfloat16,
                                          Encoding::kFloat16, Encoding::kInt8, Encoding::kInt4};

// More tensors, and with most granularities more short blocks, than a launch holds.
inline std::vector<uint64_t> many_counts() {
  std::vector<uint64_t> counts = {0, 1, 63, 64, 65, 0, 127, 128, 1000, 1, 1, 7, 4096, 100, 99, 0};
  for (uint64_t i = 0; i < 600; ++i) counts.push_back(i * 61 % 150);
  return counts;
}

// Bitwise: NaNs and signs of zero count.
template <typename One, typename Other>
testing::AssertionResult same_bits(const One& one, const Other& other) {
  if (one.size() != other.size()) {
    return testing::AssertionFailure() << one.size() << " values, not " << other.size();
  }
  for (size_t i = 0; i < one.size(); ++i) {
    if (memcmp(&one[i], &other[i], sizeof(one[i])) == 0) continue;
    return testing::AssertionFailure() << "differ first at " << i << " of " << one.size();
  }
  return testing::AssertionSuccess();
}

// Bitwise but for which NaN it is: arithmetic on a GPU makes always the same one, a CPU hands on
// that of an operand.
template <typename One, typename Other>
testing::AssertionResult same_numbers(const One& one, const Other& other) {
  if (one.size() != other.size()) {
    return testing::AssertionFailure() << one.size() << " values, not " << other.size();
  }
  for (size_t i = 0; i < one.size(); ++i) {
    if (std::isnan(one[i]) && std::isnan(other[i])) continue;
    if (bits_of(one[i]) == bits_of(other[i])) continue;
    return testing::AssertionFailure() << "differ first at " << i << " of " << one.size();
  }
  return testing::AssertionSuccess();
}

}  // namespace asyncmesh::kernels::backend
