#include "base/byte_io.h"

namespace asyncmesh {

// Out of line on purpose: inlined at -O3, g++ 12 sees impossible sizes in the vector's growth and
// warns.
void ByteWriter::append(const void* data, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  out_.insert(out_.end(), first, first + bytes);
}

}  // namespace asyncmesh
