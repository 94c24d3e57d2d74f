#include "mesh/env.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "mesh/text.h"
#include "mesh/url.h"

namespace asyncmesh::mesh {

namespace {

constexpr size_t kMaxSecretFile = 64 * 1024;

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // Empty counts as absent.
  std::optional<std::string> text(const char* name) const {
    auto value = environment_.variable(name);
    if (value && value->empty()) value.reset();
    return value;
  }
  bool has(const char* name) const { return text(name).has_value(); }

  Result<uint64_t> number(const char* name, uint64_t largest) const {
    const auto value = text(name);
    if (!value) return Status(Code::kInvalidArgument, fmt::format("{} is not set", name));
    uint64_t number = 0;
    const char* const end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, number);
    if (error != std::errc() || stop != end || number > largest) {
      return Status(Code::kInvalidArgument, fmt::format("{}=\"{}\" is not a number from 0 to {}",
                                                        name, printable(*value, 64), largest));
    }
    return number;
  }

 private:
  const Environment& environment_;
};

struct Launcher {
  const char* rank;
  const char* world;
};

constexpr Launcher kOwn{"ASYNCMESH_RANK", "ASYNCMESH_WORLD_SIZE"};
constexpr Launcher kTorchrun{"RANK", "WORLD_SIZE"};
constexpr Launcher kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"};
constexpr Launcher kSlurm{"SLURM_PROCID", "SLURM_NTASKS"};

Status torchrun_rendezvous(const Reader& reader, MeshConfig& config) {
  const auto host = reader.text("MASTER_ADDR");
  if (!host || !reader.has("MASTER_PORT")) {
    return {Code::kInvalidArgument,
            "RANK and WORLD_SIZE are set, but neither ASYNCMESH_RENDEZVOUS nor MASTER_ADDR and "
            "MASTER_PORT"};
  }
  auto port = reader.number("MASTER_PORT", 65534);
  if (!port.ok()) return port.status();
  config.url = "tcp://" + host_and_port(*host, static_cast<uint16_t>(port.value() + 1));
  if (const auto id = reader.text("TORCHELASTIC_RUN_ID")) {
    config.run_id =
        fmt::format("torchrun-{}.{}", *id, reader.text("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  }
  return {};
}

Status slurm_rendezvous(const Reader& reader, MeshConfig& config) {
  auto list = reader.text("SLURM_STEP_NODELIST");  // a step may use only some of the job's nodes
  if (!list) list = reader.text("SLURM_JOB_NODELIST");
  const std::string host = list ? first_host(*list) : std::string();
  if (host.empty()) {
    return {Code::kInvalidArgument, fmt::format("SLURM_JOB_NODELIST=\"{}\" names no host; set "
                                                "ASYNCMESH_RENDEZVOUS=tcp://host:port",
                                                printable(list.value_or(""), 128))};
  }
  auto job = reader.number("SLURM_JOB_ID", UINT32_MAX);
  if (!job.ok()) return job.status();
  // The batch step and others without a number have ids near 2^32, or none.
  auto step = reader.number("SLURM_STEP_ID", UINT32_MAX);
  const uint64_t step_id = step.ok() ? step.value() : 0;
  // Below the range from which systems take source ports; steps of one job get different ports.
  const uint64_t port = 10000 + (job.value() * 61 + step_id) % 20000;
  config.url = "tcp://" + host_and_port(host, static_cast<uint16_t>(port));
  config.run_id = fmt::format("slurm-{}.{}", job.value(), step_id);
  return {};
}

Status read_place(const Reader& reader, const Launcher& launcher, MeshConfig& config) {
  auto rank = reader.number(launcher.rank, UINT32_MAX - 1);
  if (!rank.ok()) return rank.status();
  auto world = reader.number(launcher.world, UINT32_MAX - 1);
  if (!world.ok()) return world.status();
  uint64_t stages = 1;
  if (reader.has("ASYNCMESH_STAGES")) {
    auto value = reader.number("ASYNCMESH_STAGES", UINT32_MAX);
    if (!value.ok()) return value.status();
    stages = value.value();
  }
  if (world.value() == 0 || rank.value() >= world.value()) {
    return {Code::kInvalidArgument, fmt::format("{}={} is not below {}={}", launcher.rank,
                                                rank.value(), launcher.world, world.value())};
  }
  if (stages == 0 || world.value() % stages != 0) {
    return {Code::kInvalidArgument, fmt::format("ASYNCMESH_STAGES={} does not divide {}={}", stages,
                                                launcher.world, world.value())};
  }
  config.rank = static_cast<Rank>(rank.value());
  config.stages = static_cast<uint32_t>(stages);
  config.replicas = static_cast<uint32_t>(world.value() / stages);
  config.replica = config.rank / config.stages;
  config.stage = config.rank % config.stages;
  return {};
}

Status read_launcher(const Reader& reader, MeshConfig& config) {
  const Launcher* launcher = nullptr;
  for (const Launcher* candidate : {&kOwn, &kTorchrun, &kOpenMpi, &kSlurm}) {
    if (launcher == nullptr && reader.has(candidate->rank) && reader.has(candidate->world)) {
      launcher = candidate;
    }
  }
  const auto url = reader.text("ASYNCMESH_RENDEZVOUS");
  if (launcher == nullptr) {
    if (!url) return {};
    return {
        Code::kInvalidArgument,
        "ASYNCMESH_RENDEZVOUS is set, but no rank: set ASYNCMESH_RANK and ASYNCMESH_WORLD_SIZE"};
  }
  ASYNCMESH_RETURN_IF_ERROR(read_place(reader, *launcher, config));
  if (launcher == &kTorchrun && !url) return torchrun_rendezvous(reader, config);
  if (launcher == &kSlurm && !url) return slurm_rendezvous(reader, config);
  if (url) {
    config.url = *url;
  } else if (config.replicas * config.stages > 1) {
    return {Code::kInvalidArgument,
            fmt::format("{} is set, but not ASYNCMESH_RENDEZVOUS=tcp://host:port", launcher->rank)};
  }
  return {};
}

Status read_secret(const Reader& reader, const Environment& environment, MeshConfig& config) {
  const auto secret = reader.text("ASYNCMESH_SECRET");
  const auto path = reader.text("ASYNCMESH_SECRET_FILE");
  if (secret && path) {
    return {Code::kInvalidArgument, "both ASYNCMESH_SECRET and ASYNCMESH_SECRET_FILE are set"};
  }
  config.secret = secret.value_or("");
  if (!path) return {};
  auto content = environment.read_file(*path);
  if (!content.ok()) return content.status();
  std::string text = content.value();
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.empty()) {
    return {Code::kInvalidArgument,
            fmt::format("ASYNCMESH_SECRET_FILE={} is empty", printable(*path))};
  }
  config.secret = std::move(text);
  return {};
}

Status read_options(const Reader& reader, MeshConfig& config) {
  if (const auto id = reader.text("ASYNCMESH_RUN_ID")) config.run_id = *id;
  config.bind_address = reader.text("ASYNCMESH_BIND_ADDRESS").value_or("");
  config.announce_address = reader.text("ASYNCMESH_ANNOUNCE_ADDRESS").value_or("");
  if (reader.has("ASYNCMESH_EXTERNAL_RENDEZVOUS")) {
    auto external = reader.number("ASYNCMESH_EXTERNAL_RENDEZVOUS", 1);
    if (!external.ok()) return external.status();
    config.external_rendezvous = external.value() == 1;
  }
  if (reader.has("ASYNCMESH_PEER_TIMEOUT_MS")) {
    auto timeout = reader.number("ASYNCMESH_PEER_TIMEOUT_MS", 86'400'000);
    if (!timeout.ok()) return timeout.status();
    config.peer_timeout = static_cast<Nanoseconds>(timeout.value()) * 1'000'000;
  }
  return {};
}

}  // namespace

Environment process_environment() {
  Environment environment;
  environment.variable = [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
  environment.read_file = [](const std::string& path) -> Result<std::string> {
    std::ifstream file(path, std::ios::binary);
    std::string content(kMaxSecretFile, '\0');
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    if (file.bad() || (!file && !file.eof())) {
      return Status(Code::kInvalidArgument, fmt::format("cannot read {}", printable(path)));
    }
    content.resize(static_cast<size_t>(file.gcount()));
    return content;
  };
  return environment;
}

Result<MeshConfig> config_from_environment(const Environment& environment) {
  const Reader reader(environment);
  MeshConfig config;
  ASYNCMESH_RETURN_IF_ERROR(read_launcher(reader, config));
  ASYNCMESH_RETURN_IF_ERROR(read_secret(reader, environment, config));
  ASYNCMESH_RETURN_IF_ERROR(read_options(reader, config));
  return config;
}

std::string first_host(const std::string& slurm_node_list) {
  std::string host;
  size_t i = 0;
  while (i < slurm_node_list.size() && slurm_node_list[i] != ',') {
    if (slurm_node_list[i] != '[') {
      host += slurm_node_list[i++];
      continue;
    }
    const size_t close = slurm_node_list.find(']', i);
    if (close == std::string::npos) return {};
    const std::string range = slurm_node_list.substr(i + 1, close - i - 1);
    host += range.substr(0, range.find_first_of(",-"));
    i = close + 1;
  }
  return host;
}

}  // namespace asyncmesh::mesh
