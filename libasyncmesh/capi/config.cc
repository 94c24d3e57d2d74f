// asyncmesh_config_from_env, and the translation of both configurations.
#include "capi/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "capi/guard.h"
#include "capi/versioned.h"
#include "core/engines.h"
#include "core/env_config.h"

namespace asyncmesh::capi {
namespace {

constexpr asyncmesh_config_t kDefaults = ASYNCMESH_CONFIG_INIT;
constexpr asyncmesh_mesh_config_t kMeshDefaults = ASYNCMESH_MESH_CONFIG_INIT;

Status too_long(const char* name, const std::string& text, size_t capacity) {
  if (text.size() < capacity) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{} of the environment has {} characters, at most {} are possible",
                            name, text.size(), capacity - 1));
}

Status env_to_config(const mesh::Environment& environment, asyncmesh_config_t* theirs) {
  const auto parsed = core::context_config_from_environment(environment);
  if (!parsed.ok()) return parsed.status();
  const core::ContextConfig& config = parsed.value();
  ASYNCMESH_RETURN_IF_ERROR(too_long("ASYNCMESH_TLS", config.tls, sizeof theirs->tls));
  ASYNCMESH_RETURN_IF_ERROR(
      too_long("ASYNCMESH_NET_DEVICES", config.net_devices, sizeof theirs->net_devices));
  ASYNCMESH_RETURN_IF_ERROR(too_long("ASYNCMESH_LINK", config.link, sizeof theirs->link));
  ASYNCMESH_RETURN_IF_ERROR(too_long("ASYNCMESH_FAULTS", config.faults, sizeof theirs->faults));
  asyncmesh_config_t mine = kDefaults;
  mine.progress = static_cast<uint32_t>(config.progress);
  mine.engine = static_cast<uint32_t>(config.engine);
  mine.checksum = config.checksum ? 1 : 0;
  mine.log_fd = config.log_fd;
  mine.log_level = static_cast<uint32_t>(config.log_level);
  mine.kernel_threads = config.kernel_threads;
  text_out(config.tls, mine.tls);
  text_out(config.net_devices, mine.net_devices);
  text_out(config.link, mine.link);
  text_out(config.faults, mine.faults);
  copy_out(mine, theirs);
  return {};
}

Status env_to_mesh(const mesh::Environment& environment, asyncmesh_mesh_config_t* theirs) {
  const auto parsed = mesh::config_from_environment(environment);
  if (!parsed.ok()) return parsed.status();
  const mesh::MeshConfig& config = parsed.value();
  ASYNCMESH_RETURN_IF_ERROR(too_long("the rendezvous", config.url, sizeof theirs->url));
  ASYNCMESH_RETURN_IF_ERROR(too_long("ASYNCMESH_SECRET", config.secret, sizeof theirs->secret));
  ASYNCMESH_RETURN_IF_ERROR(too_long("ASYNCMESH_RUN_ID", config.run_id, sizeof theirs->run_id));
  ASYNCMESH_RETURN_IF_ERROR(
      too_long("ASYNCMESH_BIND_ADDRESS", config.bind_address, sizeof theirs->bind_address));
  ASYNCMESH_RETURN_IF_ERROR(too_long("ASYNCMESH_ANNOUNCE_ADDRESS", config.announce_address,
                                     sizeof theirs->announce_address));
  asyncmesh_mesh_config_t mine = kMeshDefaults;
  mine.rank = config.rank;
  mine.replicas = config.replicas;
  mine.stages = config.stages;
  mine.replica = config.replica;
  mine.stage = config.stage;
  mine.external_rendezvous = config.external_rendezvous ? 1 : 0;
  mine.peer_timeout_ns = config.peer_timeout;
  text_out(config.url, mine.url);
  text_out(config.secret, mine.secret);
  text_out(config.run_id, mine.run_id);
  text_out(config.bind_address, mine.bind_address);
  text_out(config.announce_address, mine.announce_address);
  copy_out(mine, theirs);
  return {};
}

Status in_range(const char* name, uint32_t value, uint32_t last) {
  if (value <= last) return {};
  return Status(Code::kInvalidArgument, fmt::format("{} {} is not in 0..{}", name, value, last));
}

}  // namespace

Status read_config(const asyncmesh_config_t* theirs, core::ContextConfig* out) {
  asyncmesh_config_t mine = kDefaults;
  ASYNCMESH_RETURN_IF_ERROR(copy_in(theirs, &mine));
  ASYNCMESH_RETURN_IF_ERROR(in_range("progress", mine.progress, ASYNCMESH_PROGRESS_MANUAL));
  ASYNCMESH_RETURN_IF_ERROR(in_range("engine", mine.engine, ASYNCMESH_ENGINE_LOOPBACK));
  ASYNCMESH_RETURN_IF_ERROR(in_range("log_level", mine.log_level, ASYNCMESH_LOG_DEBUG));
  ASYNCMESH_RETURN_IF_ERROR(in_range("checksum", mine.checksum, 1));
  ASYNCMESH_RETURN_IF_ERROR(
      in_range("kernel_threads", mine.kernel_threads, core::kMaxKernelThreads));
  if (mine.log_fd < -1) return invalid("log_fd is below -1");
  if (mine.progress_cpu < -1) return invalid("progress_cpu is below -1");
  out->progress = static_cast<core::ProgressMode>(mine.progress);
  out->engine = static_cast<core::EngineChoice>(mine.engine);
  out->checksum = mine.checksum != 0;
  out->log_fd = mine.log_fd;
  out->log_level = static_cast<LogLevel>(mine.log_level);
  out->progress_cpu = mine.progress_cpu;
  out->kernel_threads = std::max(mine.kernel_threads, 1U);
  ASYNCMESH_RETURN_IF_ERROR(text_in(mine.tls, "tls", &out->tls));
  ASYNCMESH_RETURN_IF_ERROR(text_in(mine.net_devices, "net_devices", &out->net_devices));
  ASYNCMESH_RETURN_IF_ERROR(text_in(mine.link, "link", &out->link));
  ASYNCMESH_RETURN_IF_ERROR(text_in(mine.faults, "faults", &out->faults));
  return core::check_engines(*out);
}

Status read_mesh_config(const asyncmesh_mesh_config_t* theirs, mesh::MeshConfig* out) {
  asyncmesh_mesh_config_t mine = kMeshDefaults;
  ASYNCMESH_RETURN_IF_ERROR(copy_in(theirs, &mine));
  ASYNCMESH_RETURN_IF_ERROR(in_range("external_rendezvous", mine.external_rendezvous, 1));
  ASYNCMESH_RETURN_IF_ERROR(in_range("reserved", mine.reserved, 0));
  if (mine.replicas == 0 || mine.stages == 0) return invalid("replicas and stages are at least 1");
  if (uint64_t{mine.replicas} * mine.stages > kMaxWorld)
    return Status(Code::kInvalidArgument,
                  fmt::format("a world of {} ranks is above the limit of {}",
                              uint64_t{mine.replicas} * mine.stages, kMaxWorld));
  if (mine.replica >= mine.replicas || mine.stage >= mine.stages)
    return invalid("replica or stage is not below replicas or stages");
  if (mine.rank != mine.replica * mine.stages + mine.stage)
    return Status(Code::kInvalidArgument,
                  fmt::format("rank {} is not replica x stages + stage = {}", mine.rank,
                              mine.replica * mine.stages + mine.stage));
  if (mine.peer_timeout_ns < 10'000'000) return invalid("peer_timeout_ns is below 10 ms");
  out->rank = mine.rank;
  out->replicas = mine.replicas;
  out->stages = mine.stages;
  out->replica = mine.replica;
  out->stage = mine.stage;
  out->external_rendezvous = mine.external_rendezvous != 0;
  out->peer_timeout = mine.peer_timeout_ns;
  ASYNCMESH_RETURN_IF_ERROR(text_in(mine.url, "url", &out->url));
  ASYNCMESH_RETURN_IF_ERROR(text_in(mine.secret, "secret", &out->secret));
  ASYNCMESH_RETURN_IF_ERROR(text_in(mine.run_id, "run_id", &out->run_id));
  ASYNCMESH_RETURN_IF_ERROR(text_in(mine.bind_address, "bind_address", &out->bind_address));
  ASYNCMESH_RETURN_IF_ERROR(
      text_in(mine.announce_address, "announce_address", &out->announce_address));
  if (out->url.empty() && out->replicas * out->stages > 1)
    return invalid("url is empty, and the world has more than one rank");
  return {};
}

}  // namespace asyncmesh::capi

using namespace asyncmesh;
using namespace asyncmesh::capi;

asyncmesh_status_t asyncmesh_config_from_env(
    asyncmesh_config_t* config, asyncmesh_mesh_config_t* mesh_config) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    if (config != nullptr) ASYNCMESH_RETURN_IF_ERROR(check_size(config));
    if (mesh_config != nullptr) ASYNCMESH_RETURN_IF_ERROR(check_size(mesh_config));
    const mesh::Environment environment = mesh::process_environment();
    asyncmesh_config_t filled = kDefaults;
    if (config != nullptr) ASYNCMESH_RETURN_IF_ERROR(env_to_config(environment, &filled));
    if (mesh_config != nullptr) ASYNCMESH_RETURN_IF_ERROR(env_to_mesh(environment, mesh_config));
    if (config != nullptr) copy_out(filled, config);
    return {};
  });
}
