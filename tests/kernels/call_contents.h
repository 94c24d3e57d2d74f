// What the memory of the calls in cuda_calls.h is filled with, and when two of them agree about it.
#pragma once

#include <functional>

#include "tests/kernels/backend.h"

namespace asyncmesh::kernels::backend {

// kUnsampled: the elements that top_change samples say nothing of the others.
enum class Contents : uint8_t {
  kOrdinary,
  kOther,
  kEqual,
  kZero,
  kNotFinite,
  kOneHuge,
  kUnsampled,
};
inline constexpr Contents kAllContents[] = {
    Contents::kOrdinary,  Contents::kOther,   Contents::kEqual,    Contents::kZero,
    Contents::kNotFinite, Contents::kOneHuge, Contents::kUnsampled};

using Fill = std::function<void(std::byte* to, Contents contents)>;
using Agree = std::function<bool(const std::byte* one, const std::byte* other)>;

Fill numbers(uint64_t count, uint32_t seed, Encoding encoding = Encoding::kFloat32);
Fill positive_numbers(uint64_t count, uint32_t seed);
// What outputs and scratch hold before.
Fill anything(size_t bytes);
// `count` ascending ones below `elements`.
Fill indices(uint64_t count, uint64_t elements);

Agree bitwise(size_t bytes);
// Bitwise but for which NaN it is.
Agree alike(uint64_t count, Encoding encoding = Encoding::kFloat32);
// To the error of sums of doubles.
Agree near_sums(uint32_t sums);

}  // namespace asyncmesh::kernels::backend
