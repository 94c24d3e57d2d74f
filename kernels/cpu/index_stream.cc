// encode_indices and decode_indices; format in selection.h. Eight gaps fill as many bytes as they
// are wide, whatever the width: that is the unit of both directions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/index_stream.cc"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target.h
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/cpu/index_stream.h"
#include "kernels/cpu/selection_cpu.h"
#include "kernels/cpu/spread.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Tables of gaps up to this width: 16 of them and the word behind lie in 16 words, and the sum of a
// block's stays below 2^31.
constexpr uint32_t kNarrow = 24;

// The gaps of a block, 0 for missing indices. Nothing is written when `gaps` is null.
HWY_INLINE uint32_t bits_of_gaps(const uint32_t* indices, uint64_t size, uint32_t* gaps) {
  uint32_t bits = 0;
  for (uint64_t i = 1; i < size; ++i) {
    const uint32_t gap = indices[i] - indices[i - 1] - 1;
    bits |= gap;
    if (gaps != nullptr) gaps[i] = gap;
  }
  return bits;
}

// Their width.
HWY_INLINE uint32_t find_gaps(const uint32_t* indices, uint64_t count, uint32_t* gaps) {
  uint32_t bits;
  if (gaps != nullptr) gaps[0] = 0;
  if (count >= kIndexBlock) {
    bits = bits_of_gaps(indices, kIndexBlock, gaps);
  } else {
    bits = bits_of_gaps(indices, count, gaps);
    for (uint64_t i = count; gaps != nullptr && i < kIndexBlock; ++i) gaps[i] = 0;
  }
  return bits == 0 ? 0 : 32 - static_cast<uint32_t>(hwy::Num0BitsAboveMS1Bit_Nonzero32(bits));
}

// Two gaps side by side.
HWY_INLINE uint64_t pair(const uint32_t* gaps, uint32_t width) {
  return gaps[0] | uint64_t{gaps[1]} << width;
}

// width <= 16.
HWY_INLINE uint64_t quad(const uint32_t* gaps, uint32_t width) {
  return pair(gaps, width) | pair(gaps + 2, width) << 2 * width;
}

// The words of a block's gaps. Writes up to 32 bytes beyond.
void pack_gaps(const uint32_t* gaps, uint32_t width, std::byte* out) {
  const uint32_t* const end = gaps + kIndexBlock;
  if (width <= 8) {
    for (; gaps != end; gaps += 8, out += width) {
      const uint64_t eight = quad(gaps, width) | quad(gaps + 4, width) << 4 * width % 64;
      __builtin_memcpy(out, &eight, sizeof(eight));
    }
  } else if (width < 16) {
    for (; gaps != end; gaps += 8, out += width) {
      const uint64_t upper = quad(gaps + 4, width);
      const uint64_t eight[2] = {quad(gaps, width) | upper << 4 * width, upper >> (64 - 4 * width)};
      __builtin_memcpy(out, eight, sizeof(eight));
    }
  } else {
    for (; gaps != end; gaps += 8, out += width) {
      uint64_t eight[5] = {};
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t bit = i * width, shift = bit % 64;
        eight[bit / 64] |= uint64_t{gaps[i]} << shift;
        eight[bit / 64 + 1] |= shift > 32 ? uint64_t{gaps[i]} >> (64 - shift) : 0;
      }
      __builtin_memcpy(out, eight, 32);
    }
  }
}

void measure(const IndexEncoder& to, uint64_t begin, uint64_t end) {
  for (uint64_t block = begin; block < end; ++block) {
    const uint64_t first = block * kIndexBlock;
    const uint32_t width = find_gaps(to.indices + first, to.count - first, nullptr);
    to.headers[block] = {to.indices[first], width * kWordsPerBit};
  }
}

void pack(const IndexEncoder& to, uint64_t begin, uint64_t end) {
  for (uint64_t block = begin; block < end; ++block) {
    uint32_t gaps[kIndexBlock];
    std::byte packed[kIndexBlock * 4 + 32];
    const uint64_t first = block * kIndexBlock;
    const uint32_t width = find_gaps(to.indices + first, to.count - first, gaps);
    pack_gaps(gaps, width, packed);
    const uint64_t words = width * uint64_t{kWordsPerBit};
    __builtin_memcpy(to.words + (to.headers[block].end - words) * 4, packed, words * 4);
  }
}

// Indices of a block from its gaps' words, at any width; the last one of `count`. They ascend but
// for an overflow, which the sum shows.
uint64_t unpack_wide(const std::byte* words, uint32_t width, uint64_t base, uint64_t count,
                     uint32_t* indices) {
  const uint64_t mask = (uint64_t{1} << width) - 1;
  uint64_t index = base - 1;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t bit = i * width;
    uint64_t bits;
    __builtin_memcpy(&bits, words + bit / 32 * 4, sizeof(bits));
    index += (bits >> (bit % 32) & mask) + 1;
    indices[i] = static_cast<uint32_t>(index);
  }
  return index;
}

#if HWY_TARGET != HWY_SCALAR
template <class D>
HWY_INLINE hn::VFromD<D> inclusive_sum(D d, hn::VFromD<D> v) {
  const size_t lanes = hn::Lanes(d);
  const hn::RebindToSigned<D> di;
  const auto iota = hn::Iota(d, 0);
  for (size_t step = 1; step < lanes; step *= 2) {
    const auto from = hn::Sub(iota, hn::Set(d, static_cast<uint32_t>(step)));
    const auto inside = hn::Set(d, static_cast<uint32_t>(lanes - 1));
    const auto before = hn::TableLookupLanes(v, hn::IndicesFromVec(d, hn::And(from, inside)));
    const auto there = hn::Gt(hn::BitCast(di, from), hn::Set(di, -1));
    v = hn::Add(v, hn::IfThenElseZero(hn::RebindMask(d, there), before));
  }
  return v;
}
#endif

// All of a block. width <= kNarrow.
void unpack_narrow(const std::byte* words, uint32_t width, uint32_t base, uint32_t* indices) {
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<uint32_t, 16> d;
  const size_t lanes = hn::Lanes(d);
  if (lanes >= 8) {
    const auto bit = hn::Mul(hn::Iota(d, 0), hn::Set(d, width));
    const auto word = hn::ShiftRight<5>(bit), shift = hn::And(bit, hn::Set(d, 31));
    const auto left = hn::Sub(hn::Set(d, 31), shift);
    const auto in_low = hn::IndicesFromVec(d, word);
    const auto in_high = hn::IndicesFromVec(d, hn::Add(word, hn::Set(d, 1)));
    const auto last = hn::IndicesFromVec(d, hn::Set(d, static_cast<uint32_t>(lanes - 1)));
    const auto mask = hn::Set(d, (1U << width) - 1), one = hn::Set(d, 1);
    auto before = hn::Set(d, base - 1);
    for (size_t i = 0; i < kIndexBlock; i += lanes, words += lanes / 8 * width) {
      const auto packed = hn::LoadU(d, reinterpret_cast<const uint32_t*>(words));
      const auto low = hn::Shr(hn::TableLookupLanes(packed, in_low), shift);
      const auto high = hn::Shl(
          hn::Add(hn::TableLookupLanes(packed, in_high), hn::TableLookupLanes(packed, in_high)),
          left);
      const auto gaps = hn::And(hn::Or(low, high), mask);
      const auto index = hn::Add(before, inclusive_sum(d, hn::Add(gaps, one)));
      hn::StoreU(index, d, indices + i);
      before = hn::TableLookupLanes(index, last);
    }
    return;
  }
#endif
  unpack_wide(words, width, base, kIndexBlock, indices);
}

bool decode_block(const IndexDecoder& from, uint64_t block) {
  const IndexHeader header = from.headers[block];
  const uint32_t begin = block == 0 ? 0 : from.headers[block - 1].end;
  const uint32_t length = header.end - begin, width = length / kWordsPerBit;
  const uint64_t first = block * kIndexBlock, left = from.count - first;
  const uint64_t count = left < kIndexBlock ? left : kIndexBlock;
  const bool is_last = left == count;
  const uint64_t bound = is_last ? from.elements : from.headers[block + 1].base;
  if (header.end < begin || header.end > from.size || length % kWordsPerBit != 0 || width > 32 ||
      header.base >= bound || bound > from.elements || (is_last && header.end != from.size)) {
    return false;
  }
  constexpr uint64_t kBeyond = 64;  // bytes that are read behind a block
  std::byte copy[kIndexBlock * 4 + kBeyond];
  uint32_t partial[kIndexBlock];
  const std::byte* words = from.words + uint64_t{begin} * 4;
  if ((from.size - header.end) * 4 < kBeyond) {
    if (length != 0) __builtin_memcpy(copy, words, length * uint64_t{4});
    __builtin_memset(copy + length * uint64_t{4}, 0, kBeyond);
    words = copy;
  }
  uint32_t* const out = from.indices + first;
  if (width > kNarrow) {
    return unpack_wide(words, width, header.base, count, out) < bound && out[0] == header.base;
  }
  if (count == kIndexBlock) {
    unpack_narrow(words, width, header.base, out);
  } else {
    unpack_narrow(words, width, header.base, partial);
    __builtin_memcpy(out, partial, count * sizeof(*out));
  }
  return out[count - 1] < bound && out[0] == header.base;
}

bool decode(const IndexDecoder& from, uint64_t begin, uint64_t end) {
  for (uint64_t block = begin; block < end; ++block) {
    if (!decode_block(from, block)) return false;
  }
  return true;
}

}  // namespace
}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(measure);
HWY_EXPORT(pack);
HWY_EXPORT(decode);

constexpr uint64_t kLeastBlocks = 256;  // for another thread to pay

uint64_t blocks_of(uint64_t count) { return count / kIndexBlock + (count % kIndexBlock != 0); }

}  // namespace

void cpu_encode_indices(const uint32_t* indices, uint64_t count, std::byte* stream,
                        uint64_t* bytes_out, const Execution& on) {
  const uint64_t blocks = blocks_of(count);
  auto* const headers = reinterpret_cast<IndexHeader*>(stream);
  const IndexEncoder to = {indices, count, headers, reinterpret_cast<std::byte*>(headers + blocks)};
  // Alone, by pieces whose indices are still in the cache when they are packed.
  const uint64_t piece = on.workers == nullptr ? 64 : blocks;
  uint32_t end = 0;
  for (uint64_t begin = 0; begin < blocks; begin += piece) {
    const uint64_t size = std::min(piece, blocks - begin);
    spread(on.workers, size, kLeastBlocks, [&](uint64_t from, uint64_t until) {
      HWY_DYNAMIC_DISPATCH(measure)(to, begin + from, begin + until);
    });
    for (uint64_t block = begin; block < begin + size; ++block) {
      headers[block].end = end += headers[block].end;
    }
    spread(on.workers, size, kLeastBlocks, [&](uint64_t from, uint64_t until) {
      HWY_DYNAMIC_DISPATCH(pack)(to, begin + from, begin + until);
    });
  }
  *bytes_out = blocks * sizeof(IndexHeader) + uint64_t{end} * 4;
}

void cpu_decode_indices(const std::byte* stream, uint64_t bytes, uint64_t count, uint64_t elements,
                        uint32_t* indices, uint32_t* valid_out, const Execution& on) {
  const uint64_t blocks = blocks_of(count);
  const bool whole = count <= kMaxSelectable && bytes % 4 == 0 &&
                     bytes / sizeof(IndexHeader) >= blocks && (count != 0 || bytes == 0);
  *valid_out = whole ? 1 : 0;
  if (!whole || count == 0) return;
  const auto* const headers = reinterpret_cast<const IndexHeader*>(stream);
  const IndexDecoder from = {headers,
                             reinterpret_cast<const std::byte*>(headers + blocks),
                             bytes / 4 - blocks * 2,
                             count,
                             std::min(elements, kMaxSelectable),
                             indices};
  std::atomic<uint32_t> valid{1};
  spread(on.workers, blocks, kLeastBlocks, [&](uint64_t begin, uint64_t end) {
    if (!HWY_DYNAMIC_DISPATCH(decode)(from, begin, end)) valid.store(0, std::memory_order_relaxed);
  });
  *valid_out = valid.load(std::memory_order_relaxed);
}

}  // namespace asyncmesh::kernels
#endif
