// What the opaque handles are: one reference each to an object of the core.
#pragma once

#include <memory>

#include "asyncmesh/asyncmesh.h"
#include "base/status.h"
#include "capi/guard.h"
#include "core/averager_object.h"
#include "core/context.h"
#include "core/fork_guard.h"
#include "core/mesh_session.h"
#include "core/optimiser_object.h"
#include "core/port_object.h"
#include "core/region.h"
#include "pipeline/stage_schedule.h"

struct asyncmesh_context {
  std::shared_ptr<asyncmesh::core::Context> object;
};
struct asyncmesh_mesh {
  std::shared_ptr<asyncmesh::core::MeshSession> object;
};
struct asyncmesh_region {
  std::shared_ptr<asyncmesh::core::Region> object;
};
struct asyncmesh_averager {
  std::unique_ptr<asyncmesh::core::AveragerObject> object;
};
struct asyncmesh_optimiser {
  std::unique_ptr<asyncmesh::core::OptimiserObject> object;
};
struct asyncmesh_stage {
  asyncmesh::StageSchedule schedule;
  asyncmesh::core::ForkGuard fork_guard;
};
struct asyncmesh_port {
  std::unique_ptr<asyncmesh::core::PortObject> object;
};

namespace asyncmesh::capi {

Status null_handle(const char* name);
Status inherited_handle(const char* name);

// Whether a forked child inherited the object.
inline bool inherited(const asyncmesh_context& handle) { return handle.object->inherited(); }
inline bool inherited(const asyncmesh_stage& handle) { return handle.fork_guard.inherited(); }
template <typename Handle>
bool inherited(const Handle& handle) {
  return handle.object->context().inherited();
}

// Ok if calls on it make sense.
template <typename Handle>
Status usable(const Handle* handle, const char* name) {
  if (handle == nullptr) return null_handle(name);
  if (inherited(*handle)) return inherited_handle(name);
  return {};
}

// Deletes the handle; in a forked child nothing: its memory is a copy, its threads and sockets are
// not there.
template <typename Handle>
void destroy(Handle* handle) noexcept {
  if (handle == nullptr || inherited(*handle)) return;
  guard_destroy([handle] { delete handle; });
}

}  // namespace asyncmesh::capi
