#include "capi/versioned.h"

#include <fmt/format.h>

namespace asyncmesh::capi {

Status wrong_struct_size(const char* name, uint32_t size, uint32_t first) {
  return Status(Code::kInvalidArgument,
                fmt::format("struct_size {} of {} is not in {}..{}: set it to sizeof the struct",
                            size, name, first, kLargestStruct));
}

Status unknown_tail(const char* name, uint32_t size, size_t known) {
  return Status(Code::kInvalidArgument,
                fmt::format("{} has {} bytes, this library knows {}, and the rest is not zero: a "
                            "setting that this library does not have",
                            name, size, known));
}

bool all_zero(const unsigned char* bytes, size_t count) noexcept {
  return std::all_of(bytes, bytes + count, [](unsigned char byte) { return byte == 0; });
}

}  // namespace asyncmesh::capi
