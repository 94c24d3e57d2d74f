// The address of a rendezvous: tcp://host:port, tcp://[v6]:port, tcp://[fe80::1%eth0]:port.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace asyncmesh::mesh {

struct Url {
  std::string
      host;  // a name or a literal address, without brackets; a scope stays ("fe80::1%eth0")
  uint16_t port = 0;  // 0 is accepted here; only a server can use it
};

// kInvalidArgument for a malformed text, kUnsupported for another scheme; the text says what is
// wrong.
Result<Url> parse_url(std::string_view text);

// "host:port", or "[v6]:port".
std::string host_and_port(std::string_view host, uint16_t port);

}  // namespace asyncmesh::mesh
