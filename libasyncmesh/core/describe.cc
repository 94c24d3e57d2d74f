#include "core/describe.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/mesh_session.h"
#include "core/network.h"
#include "core/version.h"
#include "kernels/kernels.h"
#include "transport/ucx/ucx_info.h"

namespace asyncmesh::core {
namespace {

using nlohmann::json;

json ucx() {
  const transport::UcxInfo info = transport::ucx_info();
  json out{{"version", info.version},
           {"built_against", info.built_against},
           {"path", info.path},
           {"resources", info.resources}};
  if (!info.error.empty()) out["error"] = info.error;
  return out;
}

json memory_locked() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return nullptr;
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return static_cast<uint64_t>(limit.rlim_cur);
}

json shared_memory() {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) return nullptr;
  return {{"bytes", static_cast<uint64_t>(info.f_blocks) * info.f_frsize},
          {"free_bytes", static_cast<uint64_t>(info.f_bavail) * info.f_frsize}};
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return {};
}

json machine() {
  utsname name{};
  uname(&name);
  return {{"system", std::string(name.sysname) + " " + name.release},
          {"architecture", name.machine},
          {"host", name.nodename},
          {"cpus", std::thread::hardware_concurrency()},
          {"cpu_model", cpu_model()},
          {"memlock_bytes", memory_locked()},
          {"dev_shm", shared_memory()}};
}

json configuration(const ContextConfig& config) {
  static constexpr const char* kEngines[] = {"auto", "tag", "rma", "loopback"};
  return {{"progress", config.progress == ProgressMode::kManual ? "manual" : "thread"},
          {"engine", kEngines[static_cast<uint32_t>(config.engine)]},
          {"checksum", config.checksum},
          {"tls", config.tls.empty() ? "auto" : config.tls},
          {"net_devices", config.net_devices},
          {"link", config.link.empty() ? "none" : config.link},
          {"faults", config.faults},
          {"log_level", log_level_name(config.log_level)},
          {"progress_cpu", config.progress_cpu},
          {"kernel_threads", config.kernel_threads}};
}

json session(MeshSession& mesh) {
  const mesh::MeshConfig& config = mesh.config();
  json peers = json::array();
  static constexpr const char* kStates[] = {"absent", "alive", "suspect", "lost", "left"};
  for (const PeerView& peer : mesh.query_peers()) {
    peers.push_back({{"rank", peer.info.rank},
                     {"host", peer.info.host},
                     {"same_host", peer.info.same_host},
                     {"state", kStates[static_cast<uint32_t>(peer.info.state)]},
                     {"reason", peer.info.reason},
                     {"transport", peer.transport},
                     {"link_epoch", peer.link_epoch}});
  }
  return {{"rank", config.rank},
          {"replica", config.replica},
          {"stage", config.stage},
          {"replicas", config.replicas},
          {"stages", config.stages},
          {"url", config.url},
          {"interface", mesh.network().interface_name},
          {"net_devices", mesh.network().net_devices},
          {"interface_reason", mesh.network().reason},
          {"engines", mesh.engine_names()},
          {"why_not_rma", mesh.why_not_rma()},
          {"peer_timeout_ns", config.peer_timeout},
          {"timers", describe(LinkTimers::from(config.peer_timeout))},
          {"spins_ns", mesh.spin_ns()},
          {"peers", peers}};
}

}  // namespace

std::string describe(Context* context) {
  json out{{"asyncmesh", {{"version", version_text()}, {"abi_revision", kAbiRevision}}},
           {"ucx", ucx()},
           {"cuda", {{"built", kernels::cuda() != nullptr}}},
           {"machine", machine()}};
  if (context != nullptr) {
    out["context"] = configuration(context->config());
    out["context"]["limits"] = {{"ports", kMaxPorts}, {"operations", kOperationSlots}};
    context->with_mesh([&out](MeshSession& mesh) { out["mesh"] = session(mesh); });
  }
  return out.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace asyncmesh::core
