#include <algorithm>

#include "capi/config.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/versioned.h"

using namespace asyncmesh;
using namespace asyncmesh::capi;

namespace {

static_assert(ASYNCMESH_PEER_ALIVE == static_cast<int>(mesh::PeerState::kAlive));
static_assert(ASYNCMESH_PEER_SUSPECT == static_cast<int>(mesh::PeerState::kSuspect));
static_assert(ASYNCMESH_PEER_STATE_LOST == static_cast<int>(mesh::PeerState::kLost));
static_assert(ASYNCMESH_PEER_LEFT == static_cast<int>(mesh::PeerState::kLeft));

}  // namespace

asyncmesh_status_t asyncmesh_mesh_join(asyncmesh_context_t* context,
                                       const asyncmesh_mesh_config_t* config, int64_t timeout_ns,
                                       asyncmesh_mesh_t** mesh_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(context, "context"));
    if (mesh_out == nullptr) return invalid("mesh_out is null");
    mesh::MeshConfig mine;
    ASYNCMESH_RETURN_IF_ERROR(read_mesh_config(config, &mine));
    auto session = core::MeshSession::join(context->object, std::move(mine),
                                           deadline_after(context->object->clock(), timeout_ns));
    if (!session.ok()) return session.status();
    *mesh_out = new asyncmesh_mesh{std::move(session.value())};
    return {};
  });
}

asyncmesh_status_t asyncmesh_mesh_query(asyncmesh_mesh_t* mesh,
                                        asyncmesh_mesh_info_t* info_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(mesh, "mesh"));
    if (info_out == nullptr) return invalid("info_out is null");
    ASYNCMESH_RETURN_IF_ERROR(check_size(info_out));
    core::MeshSession& session = *mesh->object;
    const mesh::MeshConfig& config = session.config();
    const core::MeshView view = session.query();
    asyncmesh_mesh_info_t mine{};
    mine.rank = config.rank;
    mine.world = session.world();
    mine.replica = config.replica;
    mine.replicas = config.replicas;
    mine.stage = config.stage;
    mine.stages = config.stages;
    mine.alive = view.alive;
    mine.membership_epoch = view.membership_epoch;
    text_out(view.transports, mine.transports);
    text_out(session.network().interface_name, mine.interface_name);
    const std::string& link = session.context().config().link;
    text_out(link.empty() ? "none" : link, mine.link);
    copy_out(mine, info_out);
    return {};
  });
}

asyncmesh_status_t asyncmesh_mesh_peer(asyncmesh_mesh_t* mesh, uint32_t rank,
                                       asyncmesh_peer_info_t* info_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(mesh, "mesh"));
    if (info_out == nullptr) return invalid("info_out is null");
    ASYNCMESH_RETURN_IF_ERROR(check_size(info_out));
    const auto view = mesh->object->query_peer(rank);
    if (!view.ok()) return view.status();
    const mesh::PeerInfo& info = view.value().info;
    asyncmesh_peer_info_t mine{};
    mine.rank = rank;
    mine.replica = info.replica;
    mine.stage = info.stage;
    mine.state = static_cast<uint32_t>(info.state);
    mine.link_epoch = view.value().link_epoch;
    text_out(view.value().transport, mine.transport);
    text_out(info.host, mine.host);
    text_out(info.reason, mine.reason);
    copy_out(mine, info_out);
    return {};
  });
}

asyncmesh_status_t asyncmesh_mesh_leave(asyncmesh_mesh_t* mesh,
                                        int64_t timeout_ns) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(mesh, "mesh"));
    core::MeshSession& session = *mesh->object;
    return session.leave(deadline_after(session.context().clock(), timeout_ns));
  });
}

void asyncmesh_mesh_destroy(asyncmesh_mesh_t* mesh) ASYNCMESH_NOEXCEPT { destroy(mesh); }
