// What UCX says and how it reacts to crashes, kept inside the library.
//
// Threads: any. Nothing here is on a hot path.
#pragma once

#include <ucs/type/status.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace asyncmesh::transport {

// Once per process: takes UCX's log lines and crash handlers away as described in ucx_transport.h.
// The log handler stays pushed for the life of the process, since UCX pops handlers by position and
// another user's may lie on top of ours.
void tame_ucx();

// The latest warning or error that UCX logged on this thread since the previous call; empty if
// none.
std::string take_ucx_log();

// "what: UCX's text for the status (latest log line of UCX)".
Status ucx_error(Code code, std::string_view what, ucs_status_t status);

}  // namespace asyncmesh::transport
