// The variables that configure a context: ASYNCMESH_ENGINE, _TLS, _NET_DEVICES, _LINK, _FAULTS,
// _PROGRESS, _CHECKSUM, _LOG, _KERNEL_THREADS. (Those of the mesh are in mesh/env.h.) An empty
// variable counts as absent. A pure function over an environment, for tests.
#pragma once

#include "base/status.h"
#include "core/config.h"
#include "mesh/env.h"

namespace asyncmesh::core {

// kInvalidArgument names the variable and its value.
Result<ContextConfig> context_config_from_environment(const mesh::Environment& environment);

}  // namespace asyncmesh::core
