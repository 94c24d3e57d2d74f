// Which addresses a rank listens on and tells others.
//
// Binding and announcing are apart. By default a rank announces the address from which it reaches
// the rendezvous: the interface that routes there, not whichever comes first (container bridges
// do). A loopback address is never told to another host. Where everything is loopback, nothing else
// is listened on, and no secret is needed.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "mesh/mesh.h"
#include "mesh/socket.h"
#include "mesh/url.h"

namespace asyncmesh::mesh {

struct Route {
  std::string address;  // literal, of this machine
  // "eth0". "" if none has that address, and where a name means loopback only on its own host (as
  // in 127.0.1.1 of /etc/hosts): other hosts reach this one by another interface, not known here.
  std::string interface;
  bool loopback = false;
};

// How this machine reaches `url`, without sending anything. Blocks while the resolver does.
Result<Route> route_to(const std::string& url);

struct Endpoints {
  Url url;
  std::vector<SocketAddress> rendezvous;  // to dial, in order
  bool loopback_only = false;             // url, bind and announce addresses are all loopback
  std::vector<SocketAddress> serve;       // for rank 0, in order
};

// kInvalidArgument: malformed, or no secret off loopback; kSystem: unknown host.
Result<Endpoints> find_endpoints(const MeshConfig& config);

// Where the control listener goes, port 0. `local`: this end of the connection to the rendezvous.
Result<SocketAddress> listener_address(const MeshConfig& config, const Endpoints& endpoints,
                                       const SocketAddress& local);
// What peers dial, a literal address.
Result<std::string> announced_host(const MeshConfig& config, const SocketAddress& local);

}  // namespace asyncmesh::mesh
