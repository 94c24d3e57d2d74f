// TCP sockets as the mesh uses them: non-blocking, close-on-exec, fork-safe, without Nagle's delay,
// and with SO_REUSEADDR, so that a port can be used again at once after its process died.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "mesh/fork_safe_fd.h"

namespace asyncmesh::mesh {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  std::string host() const;  // literal, without brackets; "" if this is no IP address
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_loopback() const;
  bool same_host(const SocketAddress& other) const;  // the same IP address, or both loopback
};

// Blocks for as long as the system's resolver does. Never empty on success. kSystem: unknown name.
Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);
// A literal address only: never asks the resolver. kInvalidArgument for anything else.
Result<SocketAddress> parse_address(const std::string& host, uint16_t port);
// All interfaces: IPv6 and IPv4 where the system has both.
SocketAddress any_address(uint16_t port);

// kSystem with errno's text; kAgain if the port is in use.
Result<ForkSafeFd> listen_on(const SocketAddress& address);
// Starts to connect; `connect_result` tells how it went once the socket is writable.
Result<ForkSafeFd> dial(const SocketAddress& address);
// kOk: connected. kAgain: not yet. kSystem: failed, with errno's text.
Status connect_result(int fd);
// Blocks until connected or `deadline` (absolute, of `clock`).
Result<ForkSafeFd> dial_and_wait(const SocketAddress& address, const Clock& clock,
                                 Nanoseconds deadline);
// Empty if nobody is waiting (or the stranger has gone again).
ForkSafeFd accept_from(int listener);

SocketAddress local_address(int fd);   // length 0 on failure
SocketAddress remote_address(int fd);  // length 0 on failure

// "Connection refused", ... Any thread.
std::string errno_text(int error);

}  // namespace asyncmesh::mesh
