#include "core/network.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "mesh/route.h"

namespace asyncmesh::core {
namespace {

bool has_verbs_device() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

}  // namespace

NetworkChoice choose_network(const ContextConfig& config, const std::string& url) {
  NetworkChoice choice;
  if (const auto route = mesh::route_to(url); route.ok())
    choice.interface_name = route.value().interface;
  if (!config.net_devices.empty()) {
    choice.net_devices = config.net_devices;
    choice.reason = "net_devices of the configuration";
  } else if (std::getenv("UCX_NET_DEVICES") != nullptr) {
    choice.reason = "UCX_NET_DEVICES";
  } else if (has_verbs_device()) {
    choice.reason = "left to UCX: there are InfiniBand or RoCE devices";
  } else if (choice.interface_name.empty()) {
    choice.reason = "left to UCX: no route to the rendezvous was found";
  } else {
    choice.net_devices = choice.interface_name;
    choice.reason = fmt::format("{} routes to the rendezvous", choice.interface_name);
  }
  return choice;
}

}  // namespace asyncmesh::core
