// The text of a bug report: what this build is, what this machine has, what was chosen and why.
#pragma once

#include <string>

#include "core/context.h"

namespace asyncmesh::core {

// JSON, one object. `context` may be null: build and machine only. Any thread; asks UCX, so this is
// slow (tens of milliseconds).
std::string describe(Context* context);

}  // namespace asyncmesh::core
