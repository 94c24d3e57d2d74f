#include "core/engines.h"

#include <fmt/format.h>

#include <algorithm>

#include "transport/loopback/loopback.h"
#include "transport/ucx/ucx_info.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::core {
namespace {

transport::UcxConfig ucx_config(const ContextConfig& config, const std::string& net_devices) {
  transport::UcxConfig ucx;
  ucx.tls = config.tls.empty() ? "auto" : config.tls;
  ucx.net_devices = net_devices;
  return ucx;
}

bool paced(const ContextConfig& config) {
  const auto link = transport::parse_link(config.link.empty() ? "none" : config.link);
  return link.ok() && !link.value().none();
}

}  // namespace

Status check_engines(const ContextConfig& config) {
  if (const auto link = transport::parse_link(config.link.empty() ? "none" : config.link);
      !link.ok())
    return link.status();
  if (const auto faults = parse_faults(config.faults); !faults.ok()) return faults.status();
  if (config.engine == EngineChoice::kRma && config.tls == "tcp")
    return Status(
        Code::kUnsupported,
        "engine rma over tcp is refused: TCP emulates remote memory, and a writer that is "
        "killed takes its target with it; use engine tag");
  return {};
}

Result<std::unique_ptr<Engines>> Engines::open(const ContextConfig& config,
                                               const std::string& net_devices, const Clock& clock) {
  ASYNCMESH_RETURN_IF_ERROR(check_engines(config));
  auto engines = std::make_unique<Engines>();
  engines->offer_.choice = config.engine;
  const transport::UcxConfig ucx = ucx_config(config, net_devices);
  switch (config.engine) {
    case EngineChoice::kLoopback:
      ASYNCMESH_RETURN_IF_ERROR(
          engines->add(Engine::kLoopback, transport::make_loopback(), config, clock));
      break;
    case EngineChoice::kTag:
      ASYNCMESH_RETURN_IF_ERROR(
          engines->add(Engine::kTag, transport::make_ucx_tag(ucx, clock), config, clock));
      break;
    case EngineChoice::kRma:
      ASYNCMESH_RETURN_IF_ERROR(
          engines->add(Engine::kRma, transport::make_ucx_rma(ucx, clock), config, clock));
      break;
    case EngineChoice::kAuto:
      if (paced(config)) {
        engines->why_not_rma_ = "an emulated link has one bucket, hence one engine: tag";
      } else {
        const Status rma =
            engines->add(Engine::kRma, transport::make_ucx_rma(ucx, clock), config, clock);
        if (!rma.ok()) engines->why_not_rma_ = rma.text();
      }
      ASYNCMESH_RETURN_IF_ERROR(
          engines->add(Engine::kTag, transport::make_ucx_tag(ucx, clock), config, clock));
      break;
  }
  return engines;
}

Status Engines::add(Engine engine, Result<std::unique_ptr<transport::Transport>> made,
                    const ContextConfig& config, const Clock& clock) {
  if (!made.ok()) return made.status();
  Opened opened;
  opened.engine = engine;
  opened.transport = std::move(made.value());
  if (!config.faults.empty()) {
    const auto faults = parse_faults(config.faults);
    if (!faults.ok()) return faults.status();
    auto faulty = transport::make_faulty(std::move(opened.transport), faults.value(), clock);
    opened.faulty = faulty.get();
    opened.transport = std::move(faulty);
  }
  if (paced(config)) {
    auto wrapped = transport::make_paced(std::move(opened.transport),
                                         transport::parse_link(config.link).value(), clock);
    opened.paced = wrapped.get();
    opened.transport = std::move(wrapped);
  }
  const std::span<const std::byte> address = opened.transport->address();
  offer_.addresses.push_back({engine, {address.begin(), address.end()}});
  opened_.push_back(std::move(opened));
  return {};
}

transport::Transport* Engines::find(Engine engine) const {
  for (const Opened& opened : opened_) {
    if (opened.engine == engine) return opened.transport.get();
  }
  return nullptr;
}

std::vector<std::string> Engines::names() const {
  std::vector<std::string> names;
  for (const Opened& opened : opened_) names.emplace_back(opened.transport->name());
  return names;
}

std::string Engines::version() const {
  if (find(Engine::kLoopback) != nullptr) return "loopback";
  const std::string full = transport::ucx_info().version;
  return "ucx " + full.substr(0, full.find('.', full.find('.') + 1));
}

uint32_t Engines::progress_st() {
  uint32_t events = 0;
  for (const Opened& opened : opened_) events += opened.transport->progress();
  return events;
}

Nanoseconds Engines::next_deadline_st() const {
  Nanoseconds next = kNever;
  for (const Opened& opened : opened_) next = std::min(next, opened.transport->next_deadline());
  return next;
}

bool Engines::arm_st() {
  return std::all_of(opened_.begin(), opened_.end(), [](const Opened& opened) {
    return !opened.transport->capabilities().has_event_fd || opened.transport->arm();
  });
}

bool Engines::sleepless_st() const {
  return std::any_of(opened_.begin(), opened_.end(), [](const Opened& opened) {
    return !opened.transport->capabilities().has_event_fd;
  });
}

void Engines::add_fds(std::vector<pollfd>& fds) const {
  for (const Opened& opened : opened_) {
    if (opened.transport->event_fd() >= 0) fds.push_back({opened.transport->event_fd(), POLLIN, 0});
  }
}

uint64_t Engines::faults_st() const {
  uint64_t count = 0;
  for (const Opened& opened : opened_)
    count += opened.faulty == nullptr ? 0 : opened.faulty->counters().total();
  return count;
}

uint64_t Engines::paced_bytes_st() const {
  uint64_t bytes = 0;
  for (const Opened& opened : opened_)
    bytes += opened.paced == nullptr ? 0 : opened.paced->counters().bytes;
  return bytes;
}

}  // namespace asyncmesh::core
