// encode_indices and decode_indices; format in selection.h.
#include <algorithm>
#include <atomic>
#include <bit>

#include "kernels/cpu/gap_words.h"
#include "kernels/cpu/selection_cpu.h"
#include "kernels/cpu/spread.h"

namespace asyncmesh::kernels {
namespace {

constexpr uint32_t kWordsPerBit = kIndexBlock / 32;  // words of a block for each bit of its width
constexpr uint64_t kLeastBlocks = 256;               // for another thread to pay

struct Header {
  uint32_t base, end;
};
static_assert(std::endian::native == std::endian::little, "streams are little endian");

uint64_t blocks_of(uint64_t count) { return count / kIndexBlock + (count % kIndexBlock != 0); }

// The gaps of a block, 0 for missing indices; returns their width.
uint32_t find_gaps(const uint32_t* indices, uint64_t count, uint32_t* gaps) {
  const uint64_t size = std::min<uint64_t>(count, kIndexBlock);
  uint32_t bits = 0;
  gaps[0] = 0;
  for (uint64_t i = 1; i < size; ++i) {
    gaps[i] = indices[i] - indices[i - 1] - 1;
    bits |= gaps[i];
  }
  std::fill(gaps + size, gaps + kIndexBlock, 0);
  return static_cast<uint32_t>(std::bit_width(bits));
}

struct Encoder {
  const uint32_t* indices;
  uint64_t count;
  Header* headers;
  std::byte* words;

  // For now, `end` is the block's own number of words.
  void measure(uint64_t begin, uint64_t end) const {
    for (uint64_t block = begin; block < end; ++block) {
      uint32_t gaps[kIndexBlock];
      const uint64_t first = block * kIndexBlock;
      const uint32_t width = find_gaps(indices + first, count - first, gaps);
      headers[block] = {indices[first], width * kWordsPerBit};
    }
  }
  void pack(uint64_t begin, uint64_t end) const {
    for (uint64_t block = begin; block < end; ++block) {
      uint32_t gaps[kIndexBlock];
      const uint64_t first = block * kIndexBlock;
      const uint32_t width = find_gaps(indices + first, count - first, gaps);
      kPackGaps[width](gaps, words + uint64_t{headers[block].end - width * kWordsPerBit} * 4);
    }
  }
};

struct Decoder {
  const Header* headers;
  const std::byte* words;
  uint64_t size;  // words
  uint64_t count;
  uint64_t elements;
  uint32_t* indices;

  bool decode_block(uint64_t block) const;
};

bool Decoder::decode_block(uint64_t block) const {
  const Header header = headers[block];
  const uint32_t begin = block == 0 ? 0 : headers[block - 1].end;
  const uint32_t length = header.end - begin, width = length / kWordsPerBit;
  if (header.end < begin || header.end > size || length % kWordsPerBit != 0 || width > 32) {
    return false;
  }
  uint32_t gaps[kIndexBlock];
  kUnpackGaps[width](words + uint64_t{begin} * 4, gaps);
  const uint64_t first = block * kIndexBlock;
  const uint64_t in_block = std::min<uint64_t>(count - first, kIndexBlock);
  const bool is_last = first + in_block == count;
  const uint64_t bound = is_last ? elements : headers[block + 1].base;
  uint64_t index = uint64_t{header.base};
  if (gaps[0] != 0 || bound > elements || (is_last && header.end != size)) return false;
  indices[first] = static_cast<uint32_t>(index);
  for (uint64_t i = 1; i < in_block; ++i) {
    index += uint64_t{gaps[i]} + 1;
    indices[first + i] = static_cast<uint32_t>(index);
  }
  return index < bound;  // they ascend, so that the last one speaks for all
}

}  // namespace

void cpu_encode_indices(const uint32_t* indices, uint64_t count, std::byte* stream,
                        uint64_t* bytes_out, const Execution& on) {
  const uint64_t blocks = blocks_of(count);
  auto* const headers = reinterpret_cast<Header*>(stream);
  const Encoder encoder = {indices, count, headers, reinterpret_cast<std::byte*>(headers + blocks)};
  // Alone, by pieces whose indices are still in the cache when they are packed.
  const uint64_t piece = on.workers == nullptr ? 256 : blocks;
  uint32_t end = 0;
  for (uint64_t begin = 0; begin < blocks; begin += piece) {
    const uint64_t size = std::min(piece, blocks - begin);
    spread(on.workers, size, kLeastBlocks,
           [&](uint64_t from, uint64_t to) { encoder.measure(begin + from, begin + to); });
    for (uint64_t block = begin; block < begin + size; ++block) {
      headers[block].end = end += headers[block].end;
    }
    spread(on.workers, size, kLeastBlocks,
           [&](uint64_t from, uint64_t to) { encoder.pack(begin + from, begin + to); });
  }
  *bytes_out = blocks * sizeof(Header) + uint64_t{end} * 4;
}

void cpu_decode_indices(const std::byte* stream, uint64_t bytes, uint64_t count, uint64_t elements,
                        uint32_t* indices, uint32_t* valid_out, const Execution& on) {
  const uint64_t blocks = blocks_of(count);
  const bool whole = count <= kMaxSelectable && bytes % 4 == 0 &&
                     bytes / sizeof(Header) >= blocks && (count != 0 || bytes == 0);
  *valid_out = whole ? 1 : 0;
  if (!whole || count == 0) return;
  const auto* const headers = reinterpret_cast<const Header*>(stream);
  const Decoder decoder = {headers,
                           reinterpret_cast<const std::byte*>(headers + blocks),
                           bytes / 4 - blocks * 2,
                           count,
                           std::min(elements, kMaxSelectable),
                           indices};
  std::atomic<uint32_t> valid{1};
  spread(on.workers, blocks, kLeastBlocks, [&](uint64_t begin, uint64_t end) {
    for (uint64_t block = begin; block < end; ++block) {
      if (decoder.decode_block(block)) continue;
      valid.store(0, std::memory_order_relaxed);
      return;
    }
  });
  *valid_out = valid.load(std::memory_order_relaxed);
}

}  // namespace asyncmesh::kernels
