#include "capi/last_error.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace asyncmesh::capi {
namespace {

thread_local std::array<char, 512> buffer{};

}  // namespace

void set_last_error(std::string_view text) noexcept {
  size_t length = std::min(text.size(), buffer.size() - 1);
  // Never in the middle of a UTF-8 sequence.
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) >> 6) == 2)
    --length;
  std::memcpy(buffer.data(), text.data(), length);
  buffer[length] = '\0';
}

const char* last_error() noexcept { return buffer.data(); }

}  // namespace asyncmesh::capi
