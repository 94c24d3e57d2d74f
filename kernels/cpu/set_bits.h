// For each byte the numbers of its set bits: how vectors of up to eight lanes move the lanes of a
// mask together.
#pragma once

#include <cstdint>

namespace asyncmesh::kernels {

struct SetBits {
  constexpr SetBits() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t at = 0;
      for (uint64_t bit = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1) != 0) lanes[byte] |= bit << (8 * at++);
      }
    }
  }
  uint64_t lanes[256] = {};  // ascending, a byte each
};
inline constexpr SetBits kSetBits;

}  // namespace asyncmesh::kernels
