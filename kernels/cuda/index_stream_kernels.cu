// encode_indices and decode_indices: a warp per block of kIndexBlock indices.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scan.h"
#include "kernels/selection.h"

namespace asyncmesh::kernels {
namespace {

constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr uint32_t kLaneIndices = kIndexBlock / kWarp;
constexpr uint32_t kBlocksPerGroup = kThreads / kWarp;
constexpr uint32_t kWordsPerBit = kIndexBlock / 32;  // words of a block per bit of its width

struct Header {
  uint32_t base, end;
};

__device__ uint64_t first_block() {
  return static_cast<uint64_t>(blockIdx.x) * kBlocksPerGroup + threadIdx.x / kWarp;
}
__device__ uint64_t block_stride() { return static_cast<uint64_t>(gridDim.x) * kBlocksPerGroup; }

// The value that index `i` contributes to its block's words; 0 for the first and for missing ones.
__device__ uint32_t gap(const uint32_t* indices, uint64_t count, uint64_t i) {
  return i >= count || i % kIndexBlock == 0 ? 0 : indices[i] - indices[i - 1] - 1;
}

// Headers with each block's base and its number of words, which the scan turns into its end.
__global__ void __launch_bounds__(kThreads)
    index_widths_kernel(const uint32_t* indices, uint64_t count, Header* headers) {
  const uint64_t blocks = (count + kIndexBlock - 1) / kIndexBlock;
  const uint32_t lane = threadIdx.x % kWarp;
  for (uint64_t block = first_block(); block < blocks; block += block_stride()) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < kLaneIndices; ++i) {
      bits |= gap(indices, count, block * kIndexBlock + i * kWarp + lane);
    }
    for (int step = 1; step < static_cast<int>(kWarp); step *= 2) {
      bits |= __shfl_xor_sync(kAllLanes, bits, step);
    }
    if (lane != 0) continue;
    const auto width = static_cast<uint32_t>(32 - __clz(static_cast<int>(bits)));
    headers[block] = {indices[block * kIndexBlock], width * kWordsPerBit};
  }
}

// Turns the numbers of words of each kThreads headers into ends within them; `sums` has the whole.
__global__ void __launch_bounds__(kThreads)
    index_ends_kernel(Header* headers, uint64_t blocks, uint32_t* sums) {
  const uint64_t pieces = (blocks + kThreads - 1) / kThreads;
  for (uint64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const uint64_t block = piece * kThreads + threadIdx.x;
    const uint32_t end = device::inclusive_scan(block < blocks ? headers[block].end : 0);
    if (block < blocks) headers[block].end = end;
    if (threadIdx.x == kThreads - 1) sums[piece] = end;
  }
}

// One group: what lies before each piece.
__global__ void __launch_bounds__(kThreads)
    index_pieces_kernel(uint32_t* sums, uint64_t blocks, uint64_t* bytes_out) {
  const uint32_t words = device::scan_array(sums, (blocks + kThreads - 1) / kThreads);
  if (threadIdx.x == 0) *bytes_out = blocks * sizeof(Header) + uint64_t{words} * 4;
}

__global__ void __launch_bounds__(kThreads)
    index_offsets_kernel(Header* headers, uint64_t blocks, const uint32_t* sums) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint64_t block = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; block < blocks; block += stride) headers[block].end += sums[block / kThreads];
}

// Word `word` of a block of `width` > 0 bits a gap.
__device__ uint32_t packed_word(const uint32_t* indices, uint64_t count, uint64_t first,
                                uint32_t width, uint32_t word) {
  uint32_t packed = 0;
  const uint32_t begin = word * 32;
  for (uint32_t i = begin / width; i < kIndexBlock && i * width < begin + 32; ++i) {
    const auto at = static_cast<int32_t>(i * width) - static_cast<int32_t>(begin);
    const uint32_t value = gap(indices, count, first + i);
    packed |= at < 0 ? value >> -at : value << at;
  }
  return packed;
}

__global__ void __launch_bounds__(kThreads)
    index_gaps_kernel(const uint32_t* indices, uint64_t count, const Header* headers,
                      uint32_t* words) {
  const uint64_t blocks = (count + kIndexBlock - 1) / kIndexBlock;
  const uint32_t lane = threadIdx.x % kWarp;
  for (uint64_t block = first_block(); block < blocks; block += block_stride()) {
    const uint32_t begin = block == 0 ? 0 : headers[block - 1].end;
    const uint32_t size = headers[block].end - begin;
    for (uint32_t word = lane; word < size; word += kWarp) {
      words[begin + word] =
          packed_word(indices, count, block * kIndexBlock, size / kWordsPerBit, word);
    }
  }
}

// `valid` is not null only in the first of the launches.
__global__ void empty_stream_kernel(uint64_t* bytes_out, uint32_t* valid_out, uint32_t valid) {
  if (bytes_out != nullptr) *bytes_out = 0;
  if (valid_out != nullptr) *valid_out = valid;
}

// The words of a stream, which hold what anybody sent.
struct IndexStream {
  const Header* headers;
  const uint32_t* words;
  uint64_t size;  // words of gaps
  uint64_t count;
  uint64_t elements;
};

// Gap `i` of a block's words, at most 32 bits wide.
__device__ uint32_t gap_at(const uint32_t* words, uint32_t width, uint32_t i) {
  if (width == 0) return 0;
  const uint32_t bit = i * width, word = bit / 32, shift = bit % 32;
  uint64_t bits = words[word];
  if (shift + width > 32) bits |= static_cast<uint64_t>(words[word + 1]) << 32;
  return static_cast<uint32_t>(bits >> shift & ((1ULL << width) - 1));
}

__device__ uint64_t scan_warp(uint64_t value) {
  const uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    const auto before = __shfl_up_sync(kAllLanes, static_cast<unsigned long long>(value), step);
    if (lane >= step) value += before;
  }
  return value;
}

// Whether the block is sound; the whole warp agrees but for `ascending`, which is each lane's own.
__device__ bool decode_block(const IndexStream& stream, uint64_t block, uint32_t* indices) {
  const uint64_t blocks = (stream.count + kIndexBlock - 1) / kIndexBlock;
  const uint32_t lane = threadIdx.x % kWarp;
  const Header header = stream.headers[block];
  const uint32_t begin = block == 0 ? 0 : stream.headers[block - 1].end;
  const uint32_t size = header.end - begin, width = size / kWordsPerBit;
  if (header.end < begin || size % kWordsPerBit != 0 || width > 32) return false;
  if (header.end > stream.size || (block + 1 == blocks && header.end != stream.size)) return false;
  uint32_t gaps[kLaneIndices];
  uint64_t advance = 0;
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneIndices; ++i) {
    gaps[i] = gap_at(stream.words + begin, width, lane * kLaneIndices + i);
    advance += uint64_t{gaps[i]} + (lane + i != 0 ? 1 : 0);
  }
  uint64_t index = header.base + scan_warp(advance) - advance;
  const uint64_t first = block * kIndexBlock + lane * kLaneIndices;
  const uint64_t bound = block + 1 == blocks ? stream.elements : stream.headers[block + 1].base;
  bool sound = bound <= stream.elements && (lane != 0 || gaps[0] == 0);
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneIndices; ++i) {
    index += uint64_t{gaps[i]} + (lane + i != 0 ? 1 : 0);
    if (first + i >= stream.count) continue;
    sound &= index < bound;
    indices[first + i] = static_cast<uint32_t>(index);
  }
  return sound;
}

__global__ void __launch_bounds__(kThreads)
    decode_indices_kernel(const IndexStream stream, uint32_t* indices, uint32_t* valid_out) {
  const uint64_t blocks = (stream.count + kIndexBlock - 1) / kIndexBlock;
  for (uint64_t block = first_block(); block < blocks; block += block_stride()) {
    if (!decode_block(stream, block, indices)) *valid_out = 0;
  }
}

}  // namespace

// The stream's last words serve as scratch before the gaps are written.
void cuda_encode_indices(const uint32_t* indices, uint64_t count, std::byte* stream,
                         uint64_t* bytes_out, const Execution& on) {
  if (count == 0) {
    launch_kernel(empty_stream_kernel, 1, 1, 0, on.stream, bytes_out, nullptr, 0U);
    return;
  }
  const uint64_t blocks = (count + kIndexBlock - 1) / kIndexBlock;
  const uint64_t pieces = (blocks + kThreads - 1) / kThreads;
  auto* const headers = reinterpret_cast<Header*>(stream);
  auto* const sums = reinterpret_cast<uint32_t*>(stream + index_stream_bound(count)) - pieces;
  const uint32_t warps = groups_for(blocks, kBlocksPerGroup);
  const uint32_t groups = groups_for(blocks, kThreads);
  launch_kernel(index_widths_kernel, warps, kThreads, 0, on.stream, indices, count, headers);
  launch_kernel(index_ends_kernel, groups, kThreads, 0, on.stream, headers, blocks, sums);
  launch_kernel(index_pieces_kernel, 1, kThreads, 0, on.stream, sums, blocks, bytes_out);
  launch_kernel(index_offsets_kernel, groups, kThreads, 0, on.stream, headers, blocks, sums);
  launch_kernel(index_gaps_kernel, warps, kThreads, 0, on.stream, indices, count, headers,
                reinterpret_cast<uint32_t*>(headers + blocks));
}

void cuda_decode_indices(const std::byte* stream, uint64_t bytes, uint64_t count, uint64_t elements,
                         uint32_t* indices, uint32_t* valid_out, const Execution& on) {
  const uint64_t blocks = count / kIndexBlock + (count % kIndexBlock != 0 ? 1 : 0);
  const bool whole = count <= kMaxSelectable && bytes % 4 == 0 &&
                     bytes / sizeof(Header) >= blocks && (count != 0 || bytes == 0);
  launch_kernel(empty_stream_kernel, 1, 1, 0, on.stream, nullptr, valid_out, whole ? 1U : 0U);
  if (!whole || count == 0) return;
  IndexStream from = {};
  from.headers = reinterpret_cast<const Header*>(stream);
  from.words = reinterpret_cast<const uint32_t*>(from.headers + blocks);
  from.size = bytes / 4 - blocks * 2;
  from.count = count;
  from.elements = elements < kMaxSelectable ? elements : kMaxSelectable;
  launch_kernel(decode_indices_kernel, groups_for(blocks, kBlocksPerGroup), kThreads, 0, on.stream,
                from, indices, valid_out);
}

}  // namespace asyncmesh::kernels
