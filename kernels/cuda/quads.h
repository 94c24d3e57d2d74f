// Values in memory, one or four at a time, as fp32: every storage and encoding. Four move by one
// access of up to 16 bytes, for which the array must be aligned to the size of four.
//
// Reading has two steps, so that several reads can be under way before the first is decoded.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/words.h"
#include "kernels/scaled.h"
#include "kernels/wire.h"

namespace asyncmesh::kernels::device {

// The fp32 values, or the codes and their scale.
template <int N>
struct Raw {
  uint32_t word[N == 1 ? 2 : 4];
};

template <int N>
struct Values {
  float at[N];
};

// Bytes of a group, codes included.
__device__ inline uint64_t group_bytes(Encoding encoding) {
  return kScaleBytes + (encoding == Encoding::kInt4 ? kGroup / 2 : kGroup);
}
// Where the scale and the code of value `i` lie. Two codes of int4 share a byte.
__device__ inline uint64_t scale_offset(uint64_t i, Encoding encoding) {
  return i / kGroup * group_bytes(encoding) + i % kGroup / kScaled * 4;
}
__device__ inline uint64_t code_offset(uint64_t i, Encoding encoding) {
  const uint64_t in_group = i % kGroup;
  return i / kGroup * group_bytes(encoding) + kScaleBytes +
         (encoding == Encoding::kInt4 ? in_group / 2 : in_group);
}

// Whether the array's values number 4 i, ... can move four at a time, for an array of fp32 or of
// `storage`. Scaled ones can by their contract.
ASYNCMESH_INLINE bool quads_aligned(const void* array, Encoding storage = Encoding::kFloat32) {
  const uintptr_t bytes = storage == Encoding::kFloat32   ? 16
                          : storage <= Encoding::kFloat16 ? 8
                                                          : 1;
  return reinterpret_cast<uintptr_t>(array) % bytes == 0;
}

__device__ inline const void* at_value(const void* array, uint64_t i, Encoding storage) {
  return static_cast<const std::byte*>(array) + (storage == Encoding::kFloat32 ? i * 4 : i * 2);
}
__device__ inline void* at_value(void* array, uint64_t i, Encoding storage) {
  return static_cast<std::byte*>(array) + (storage == Encoding::kFloat32 ? i * 4 : i * 2);
}

__device__ inline Raw<4> read_16_bytes(const std::byte* bytes) {
  const uint4 words = load_16_bytes(bytes);
  return {{words.x, words.y, words.z, words.w}};
}
__device__ inline Raw<4> read_8_bytes(const std::byte* bytes) {
  const uint2 words = load_8_bytes(bytes);
  return {{words.x, words.y, 0, 0}};
}

template <int N>
__device__ Raw<N> read_raw(const void* array, uint64_t i, Encoding encoding) {
  Raw<N> raw = {};
  const auto* const bytes = static_cast<const std::byte*>(array);
  if (encoding == Encoding::kFloat32) {
    if constexpr (N == 4) {
      raw = read_16_bytes(bytes + i * 4);
    } else {
      raw.word[0] = bits_of(reinterpret_cast<const float*>(bytes)[i]);
    }
  } else if (encoding <= Encoding::kFloat16) {
    if constexpr (N == 4) {
      raw = read_8_bytes(bytes + i * 2);
    } else {
      raw.word[0] = reinterpret_cast<const uint16_t*>(bytes)[i];
    }
  } else {
    raw.word[1] = *reinterpret_cast<const uint32_t*>(bytes + scale_offset(i, encoding));
    const std::byte* const code = bytes + code_offset(i, encoding);
    if constexpr (N == 1) {
      raw.word[0] = static_cast<uint32_t>(*code);
      if (encoding == Encoding::kInt4 && i % 2 != 0) raw.word[0] >>= 4;
    } else if (encoding == Encoding::kInt8) {
      raw.word[0] = *reinterpret_cast<const uint32_t*>(code);
    } else {
      raw.word[0] = *reinterpret_cast<const uint16_t*>(code);
    }
  }
  return raw;
}

template <int N>
__device__ Values<N> decode(const Raw<N>& raw, Encoding encoding) {
  Values<N> values;
  if (encoding == Encoding::kFloat32) {
    for (int j = 0; j < N; ++j) values.at[j] = float_of(raw.word[j]);
  } else if (encoding <= Encoding::kFloat16) {
    for (int j = 0; j < N; ++j) {
      const auto half = static_cast<uint16_t>(raw.word[j / 2] >> (j % 2 * 16));
      values.at[j] = encoding == Encoding::kBfloat16 ? from_bfloat16(half) : from_float16(half);
    }
  } else {
    const int bits = encoding == Encoding::kInt8 ? 8 : 4;
    for (int j = 0; j < N; ++j) {  // the shift to the left drops what lies above the code
      const auto top = static_cast<int32_t>(raw.word[0] << (32 - bits - j * bits));
      values.at[j] = decode_code(top >> (32 - bits), float_of(raw.word[1]));
    }
  }
  return values;
}

template <int N>
__device__ Values<N> read(const void* array, uint64_t i, Encoding encoding) {
  return decode<N>(read_raw<N>(array, i, encoding), encoding);
}
template <int N>
__device__ Values<N> read(const float* array, uint64_t i) {
  return read<N>(array, i, Encoding::kFloat32);
}

// What a write to an array of 16-bit words holds: two to a word.
template <int N>
__device__ void write_halves(void* array, uint64_t i, const uint32_t* halves) {
  auto* const words = static_cast<uint16_t*>(array) + i;
  if constexpr (N == 4) {
    uint2 pair;
    pair.x = halves[0] | halves[1] << 16;
    pair.y = halves[2] | halves[3] << 16;
    store_8_bytes(words, pair);
  } else {
    *words = static_cast<uint16_t>(halves[0]);
  }
}

// As a table holds it.
__device__ inline float rounded(Encoding storage, float value) {
  if (storage == Encoding::kBfloat16) return from_bfloat16(to_bfloat16(value));
  if (storage == Encoding::kFloat16) return from_float16(to_float16(value));
  return value;
}

// Rounded to nearest.
template <int N>
__device__ void write(void* array, uint64_t i, Encoding storage, const Values<N>& values) {
  if (storage == Encoding::kFloat32) {
    auto* const floats = static_cast<float*>(array) + i;
    if constexpr (N == 4) {
      uint4 words;
      words.x = bits_of(values.at[0]);
      words.y = bits_of(values.at[1]);
      words.z = bits_of(values.at[2]);
      words.w = bits_of(values.at[3]);
      store_16_bytes(floats, words);
    } else {
      *floats = values.at[0];
    }
    return;
  }
  uint32_t halves[N];
  for (int j = 0; j < N; ++j) {
    halves[j] =
        storage == Encoding::kBfloat16 ? to_bfloat16(values.at[j]) : to_float16(values.at[j]);
  }
  write_halves<N>(array, i, halves);
}
template <int N>
__device__ void write(float* array, uint64_t i, const Values<N>& values) {
  write<N>(array, i, Encoding::kFloat32, values);
}

}  // namespace asyncmesh::kernels::device
