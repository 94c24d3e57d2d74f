// Which network devices UCX may use: what the user says, else the interface that routes to the
// rendezvous, so that a bridge or a container's network is never picked by chance.
#pragma once

#include <string>

#include "core/config.h"

namespace asyncmesh::core {

struct NetworkChoice {
  std::string net_devices;     // for UCX; "": let it choose
  std::string interface_name;  // that routes to the rendezvous; "": unknown
  std::string reason;          // for people
};

// Blocks while the resolver does; sends nothing.
NetworkChoice choose_network(const ContextConfig& config, const std::string& url);

}  // namespace asyncmesh::core
