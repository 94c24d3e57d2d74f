// How the lanes of a row encode its values (wire.h).
#pragma once

#include "kernels/cuda/rows.h"
#include "kernels/random.h"

namespace asyncmesh::kernels::device {

// Where a run of values goes.
struct PackOutputs {
  Wire wire;
  uint64_t first_row = 0;        // number of the run's first row of kScaled values
  uint64_t count = 0;            // values of the run
  float* snapshot = nullptr;     // may be null
  std::byte* encoded = nullptr;  // may be null
  float* reference = nullptr;    // index_pack only: Feedback, may be null
};

// The rows of a run that encoding has to touch: a group's scales are written even if unused.
__device__ inline uint64_t rows_of(const PackOutputs& out) {
  const uint64_t rows = (out.count + kScaled - 1) / kScaled;
  constexpr uint64_t kOfGroup = kGroup / kScaled;
  return scaled(out.wire.encoding) ? (rows + kOfGroup - 1) / kOfGroup * kOfGroup : rows;
}

__device__ inline uint32_t* scale_slot(const PackOutputs& out, uint64_t row) {
  return reinterpret_cast<uint32_t*>(out.encoded + scale_offset(row * kScaled, out.wire.encoding));
}

// The random bits of a lane's values: two values half a row apart share a word.
struct LaneRandom {
  uint32_t words[kLaneValues / 2];

  __device__ LaneRandom(const PackOutputs& out, uint64_t row, uint32_t lane) : words() {
    if (out.wire.rounding != Rounding::kStochastic) return;
    const uint32_t key = row_key(out.wire.seed, out.first_row + row);
    ASYNCMESH_UNROLLED
    for (uint32_t i = 0; i < kLaneValues / 2; ++i) words[i] = row_word(key, lane_offset(lane, i));
  }
  __device__ uint32_t bits(uint32_t i) const {
    return i < kLaneValues / 2 ? words[i] & 0xFFFFU : words[i - kLaneValues / 2] >> 16;
  }
};
static_assert(kLaneValues / 2 / 4 * 16 == kScaled / 2, "value i + 8 lies half a row after value i");

// Bits of the largest magnitude among a lane's values.
__device__ inline uint32_t largest_of_lane(const float (&values)[kLaneValues]) {
  uint32_t largest = 0;
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) {
    const uint32_t magnitude = bits_of(values[i]) & 0x7FFFFFFFU;
    largest = largest < magnitude ? magnitude : largest;
  }
  return largest;
}

// What stands for the value on the wire, in the low bits.
__device__ inline uint32_t wire_word(const Wire& wire, const BlockScale& scale, float value,
                                     uint32_t random) {
  const bool stochastic = wire.rounding == Rounding::kStochastic;
  if (wire.encoding == Encoding::kFloat32) return bits_of(value);
  if (wire.encoding == Encoding::kBfloat16) {
    return stochastic ? to_bfloat16_stochastic(value, random) : to_bfloat16(value);
  }
  if (wire.encoding == Encoding::kFloat16) {
    return stochastic ? to_float16_stochastic(value, random) : to_float16(value);
  }
  const int32_t code = stochastic ? code_stochastic(value, scale, wire.encoding, random)
                                  : code_nearest(value, scale, wire.encoding);
  return static_cast<uint32_t>(code) & (wire.encoding == Encoding::kInt8 ? 0xFFU : 0xFU);
}

// The value that the receivers decode from a word.
__device__ inline float decoded_word(Encoding encoding, const BlockScale& scale, uint32_t word) {
  Raw<1> raw;
  raw.word[0] = word;
  raw.word[1] = scale.scale;
  return decode<1>(raw, encoding).at[0];
}

// Writes those of a quad's words that `present` names.
__device__ inline void write_words(const PackOutputs& out, uint64_t position,
                                   const uint32_t (&words)[4], uint32_t present) {
  const Encoding encoding = out.wire.encoding;
  if (scaled(encoding)) {
    std::byte* const code = out.encoded + code_offset(position, encoding);
    const int bits = encoding == Encoding::kInt8 ? 8 : 4;
    uint32_t packed = 0;
    ASYNCMESH_UNROLLED
    for (int j = 0; j < 4; ++j) packed |= (present >> j & 1) != 0 ? words[j] << (j * bits) : 0;
    if (present == 0xF) {
      if (bits == 8) *reinterpret_cast<uint32_t*>(code) = packed;
      if (bits == 4) *reinterpret_cast<uint16_t*>(code) = static_cast<uint16_t>(packed);
      return;
    }
    const uint32_t of_byte = bits == 8 ? 1 : 3;
    ASYNCMESH_UNROLLED
    for (int j = 0; j < 4; ++j) {
      if ((present & of_byte << (j * 8 / bits)) == 0) continue;
      code[j] = static_cast<std::byte>(packed >> (j * 8) & 0xFF);
    }
    return;
  }
  const bool quads = present == 0xF && quads_aligned(out.encoded, encoding);
  if (encoding == Encoding::kFloat32) {
    auto* const to = reinterpret_cast<float*>(out.encoded);
    Values<4> values;
    for (int j = 0; j < 4; ++j) values.at[j] = float_of(words[j]);
    if (quads) return write<4>(to, position, values);
    for (int j = 0; j < 4; ++j) {
      if ((present >> j & 1) != 0) to[position + j] = values.at[j];
    }
    return;
  }
  if (quads) return write_halves<4>(out.encoded, position, words);
  for (int j = 0; j < 4; ++j) {
    if ((present >> j & 1) != 0) write_halves<1>(out.encoded, position + j, words + j);
  }
}

__device__ inline void write_snapshot(const PackOutputs& out, uint64_t position,
                                      const float* values, uint32_t present) {
  if (present == 0xF && quads_aligned(out.snapshot)) {
    return write<4>(out.snapshot, position, {{values[0], values[1], values[2], values[3]}});
  }
  for (int j = 0; j < 4; ++j) {
    if ((present >> j & 1) != 0) out.snapshot[position + j] = values[j];
  }
}

}  // namespace asyncmesh::kernels::device
