#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define ASYNCMESH_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define ASYNCMESH_CRC_TARGET
#endif

namespace asyncmesh {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78U;  // reflected

using ByteTable = std::array<uint32_t, 256>;

constexpr std::array<ByteTable, 8> make_slicing_tables() {
  std::array<ByteTable, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}

constexpr auto kSlicing = make_slicing_tables();

uint64_t load64(const unsigned char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

#if defined(ASYNCMESH_CRC_TARGET)

// a * b modulo the polynomial, both reflected.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000U; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

// x^(8 * bytes) modulo the polynomial: what appending `bytes` zero bytes multiplies a checksum by.
constexpr uint32_t zeros_operator(size_t bytes) {
  uint32_t power = 0x00800000U;  // x^8
  uint32_t result = 0x80000000U;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) result = multiply(result, power);
    power = multiply(power, power);
  }
  return result;
}

using ShiftTable = std::array<ByteTable, 4>;

constexpr ShiftTable make_shift_table(size_t bytes) {
  const uint32_t factor = zeros_operator(bytes);
  ShiftTable table{};
  for (uint32_t k = 0; k < 4; ++k) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      table[k][size_t{1} << bit] = multiply(factor, uint32_t{1} << (8 * k + bit));
    }
    for (size_t byte = 1; byte < 256; ++byte) {
      table[k][byte] = table[k][byte & (byte - 1)] ^ table[k][byte & (~byte + 1)];
    }
  }
  return table;
}

// The instruction has a latency of 3 cycles and a throughput of 1: three independent streams of one
// block each keep it busy; the shift table joins them.
constexpr size_t kLongBlock = 4096;
constexpr size_t kShortBlock = 256;
constexpr ShiftTable kLongShift = make_shift_table(kLongBlock);
constexpr ShiftTable kShortShift = make_shift_table(kShortBlock);

uint32_t shift(const ShiftTable& table, uint32_t crc) {
  return table[0][crc & 0xFF] ^ table[1][(crc >> 8) & 0xFF] ^ table[2][(crc >> 16) & 0xFF] ^
         table[3][crc >> 24];
}

#if defined(__x86_64__)
ASYNCMESH_CRC_TARGET inline uint64_t step64(uint64_t crc, uint64_t word) {
  return _mm_crc32_u64(crc, word);
}
ASYNCMESH_CRC_TARGET inline uint32_t step8(uint32_t crc, unsigned char byte) {
  return _mm_crc32_u8(crc, byte);
}
#else
inline uint64_t step64(uint64_t crc, uint64_t word) {
  return __crc32cd(static_cast<uint32_t>(crc), word);
}
inline uint32_t step8(uint32_t crc, unsigned char byte) { return __crc32cb(crc, byte); }
#endif

template <size_t kBlock>
ASYNCMESH_CRC_TARGET uint32_t three_streams(uint32_t crc, const ShiftTable& table,
                                            const unsigned char*& bytes, size_t& left) {
  while (left >= 3 * kBlock) {
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < kBlock; i += 8) {
      a = step64(a, load64(bytes + i));
      b = step64(b, load64(bytes + kBlock + i));
      c = step64(c, load64(bytes + 2 * kBlock + i));
    }
    crc = shift(table, static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    crc = shift(table, crc) ^ static_cast<uint32_t>(c);
    bytes += 3 * kBlock;
    left -= 3 * kBlock;
  }
  return crc;
}

ASYNCMESH_CRC_TARGET uint32_t crc32c_instruction(uint32_t seed, const void* data,
                                                 size_t size) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint32_t crc = ~seed;
  crc = three_streams<kLongBlock>(crc, kLongShift, bytes, size);
  crc = three_streams<kShortBlock>(crc, kShortShift, bytes, size);
  uint64_t wide = crc;  // not narrowed in between: a move in each step of the chain
  for (; size >= 8; size -= 8, bytes += 8) wide = step64(wide, load64(bytes));
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++bytes) crc = step8(crc, *bytes);
  return ~crc;
}

ASYNCMESH_CRC_TARGET uint32_t header_instruction(uint64_t first, const void* tail) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(tail);
  uint64_t wide = step64(UINT32_MAX, first);
#pragma GCC unroll 8
  for (size_t i = 0; i < kCrcTailBytes; i += 8) wide = step64(wide, load64(bytes + i));
  return ~static_cast<uint32_t>(wide);
}

bool has_instruction() noexcept {
#if defined(__x86_64__) && !defined(__SSE4_2__)
  return __builtin_cpu_supports("sse4.2") != 0;
#else
  return true;
#endif
}

#endif  // ASYNCMESH_CRC_TARGET

}  // namespace

uint32_t crc32c_portable(uint32_t seed, const void* data, size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  uint32_t crc = ~seed;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    const uint64_t word = load64(at) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kSlicing[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; bytes > 0; --bytes, ++at) crc = (crc >> 8) ^ kSlicing[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

uint32_t crc32c_header(uint64_t first, const void* tail) noexcept {
#if defined(ASYNCMESH_CRC_TARGET)
  if (has_instruction()) return header_instruction(first, tail);
#endif
  return crc32c_portable(crc32c_portable(0, &first, sizeof first), tail, kCrcTailBytes);
}

uint32_t crc32c(uint32_t seed, const void* data, size_t bytes) noexcept {
#if defined(ASYNCMESH_CRC_TARGET)
  if (has_instruction()) return crc32c_instruction(seed, data, bytes);
#endif
  return crc32c_portable(seed, data, bytes);
}

}  // namespace asyncmesh
