#include "core/env_config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "core/engines.h"

namespace asyncmesh::core {
namespace {

// Empty counts as absent.
std::optional<std::string> variable(const mesh::Environment& environment, const char* name) {
  auto value = environment.variable(name);
  if (value && value->empty()) value.reset();
  return value;
}

template <typename Value, size_t N>
Status choose(const mesh::Environment& environment, const char* name,
              const std::array<std::pair<const char*, Value>, N>& words, Value* target) {
  const auto text = variable(environment, name);
  if (!text) return {};
  std::string known;
  for (const auto& [word, value] : words) {
    if (*text == word) {
      *target = value;
      return {};
    }
    known += known.empty() ? word : std::string(", ") + word;
  }
  return Status(Code::kInvalidArgument, fmt::format("{}='{}' is none of {}", name, *text, known));
}

// A decimal number.
Status count(const mesh::Environment& environment, const char* name, uint32_t last,
             uint32_t* target) {
  const auto text = variable(environment, name);
  if (!text) return {};
  uint32_t value = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || value < 1 || value > last)
    return Status(Code::kInvalidArgument,
                  fmt::format("{}='{}' is no number from 1 to {}", name, *text, last));
  *target = value;
  return {};
}

void copy(const mesh::Environment& environment, const char* name, std::string* target) {
  if (const auto text = variable(environment, name)) *target = *text;
}

}  // namespace

Result<ContextConfig> context_config_from_environment(const mesh::Environment& environment) {
  ContextConfig config;
  ASYNCMESH_RETURN_IF_ERROR(choose<EngineChoice>(
      environment, "ASYNCMESH_ENGINE",
      std::array<std::pair<const char*, EngineChoice>, 4>{{{"auto", EngineChoice::kAuto},
                                                           {"tag", EngineChoice::kTag},
                                                           {"rma", EngineChoice::kRma},
                                                           {"loopback", EngineChoice::kLoopback}}},
      &config.engine));
  ASYNCMESH_RETURN_IF_ERROR(choose<ProgressMode>(
      environment, "ASYNCMESH_PROGRESS",
      std::array<std::pair<const char*, ProgressMode>, 2>{
          {{"thread", ProgressMode::kThread}, {"manual", ProgressMode::kManual}}},
      &config.progress));
  ASYNCMESH_RETURN_IF_ERROR(choose<bool>(
      environment, "ASYNCMESH_CHECKSUM",
      std::array<std::pair<const char*, bool>, 2>{{{"0", false}, {"1", true}}}, &config.checksum));
  if (variable(environment, "ASYNCMESH_LOG")) {
    config.log_fd = STDERR_FILENO;
    ASYNCMESH_RETURN_IF_ERROR(choose<LogLevel>(
        environment, "ASYNCMESH_LOG",
        std::array<std::pair<const char*, LogLevel>, 5>{{{"off", LogLevel::kOff},
                                                         {"error", LogLevel::kError},
                                                         {"warning", LogLevel::kWarning},
                                                         {"info", LogLevel::kInfo},
                                                         {"debug", LogLevel::kDebug}}},
        &config.log_level));
  }
  ASYNCMESH_RETURN_IF_ERROR(
      count(environment, "ASYNCMESH_KERNEL_THREADS", kMaxKernelThreads, &config.kernel_threads));
  copy(environment, "ASYNCMESH_TLS", &config.tls);
  copy(environment, "ASYNCMESH_NET_DEVICES", &config.net_devices);
  copy(environment, "ASYNCMESH_LINK", &config.link);
  copy(environment, "ASYNCMESH_FAULTS", &config.faults);
  if (Status status = check_engines(config); !status.ok())
    return std::move(status).annotate("ASYNCMESH_LINK, _FAULTS or _ENGINE");
  return config;
}

}  // namespace asyncmesh::core
