// The public configurations in the core's words.
#pragma once

#include "asyncmesh/asyncmesh.h"
#include "base/status.h"
#include "core/config.h"
#include "mesh/mesh.h"

namespace asyncmesh::capi {

inline constexpr uint32_t kMaxWorld = 4096;

// Null: the defaults. kInvalidArgument names the field.
Status read_config(const asyncmesh_config_t* theirs, core::ContextConfig* out);
Status read_mesh_config(const asyncmesh_mesh_config_t* theirs, mesh::MeshConfig* out);

}  // namespace asyncmesh::capi
