// The text of a thread's last failing call: the only thread-local of the library.
#pragma once

#include <string_view>

namespace asyncmesh::capi {

void set_last_error(std::string_view text) noexcept;  // cut at 511 bytes
const char* last_error() noexcept;

}  // namespace asyncmesh::capi
