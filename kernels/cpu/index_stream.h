// The two sides of an index stream in memory (index_stream.cc).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/selection.h"

namespace asyncmesh::kernels {

static_assert(std::endian::native == std::endian::little, "streams are little endian");

inline constexpr uint32_t kWordsPerBit = kIndexBlock / 32;  // of a block's gaps, each bit of width

struct IndexHeader {
  uint32_t base, end;
};

struct IndexEncoder {
  const uint32_t* indices;
  uint64_t count;
  IndexHeader* headers;  // at first, `end` is the block's own number of words
  std::byte* words;
};

struct IndexDecoder {
  const IndexHeader* headers;
  const std::byte* words;
  uint64_t size;  // words
  uint64_t count;
  uint64_t elements;
  uint32_t* indices;
};

}  // namespace asyncmesh::kernels
