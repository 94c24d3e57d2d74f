#include "mesh/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/unique_handle.h"
#include "mesh/url.h"

namespace asyncmesh::mesh {

namespace {

using AddressList = UniqueHandle<addrinfo*, &freeaddrinfo>;

Result<std::vector<SocketAddress>> look_up(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  if (error != 0) {
    return Status(Code::kSystem,
                  fmt::format("cannot resolve {}: {}", host,
                              error == EAI_SYSTEM ? errno_text(errno) : gai_strerror(error)));
  }
  const AddressList list(first);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  if (addresses.empty()) return Status(Code::kSystem, fmt::format("{} has no IP address", host));
  return addresses;
}

// The IPv6 form of an address; IPv4 becomes v4-mapped, as dual-stack sockets report it.
in6_addr as_v6(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    return reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr;
  }
  in6_addr mapped{};
  mapped.s6_addr[10] = 0xff;
  mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[12], &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr,
              4);
  return mapped;
}

ForkSafeFd new_socket(int family) {
  ForkSafeFd fd = ForkSafeFd::open(
      [family] { return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
  if (fd) {
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return fd;
}

const sockaddr* raw(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

// A socket that dials a free port of its own host may be given that very port as its source, and is
// then connected to itself; a listener could not come up while it lives.
bool connected_to_itself(int fd) {
  const SocketAddress local = local_address(fd);
  const SocketAddress remote = remote_address(fd);
  return local.length != 0 && local.port() == remote.port() && local.same_host(remote);
}

}  // namespace

std::string errno_text(int error) { return std::system_category().message(error); }

std::string SocketAddress::host() const {
  if (length == 0) return {};
  const in6_addr v6 = as_v6(*this);
  char text[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
    return text;
  }
  inet_ntop(AF_INET6, &v6, text, sizeof text);
  const uint32_t scope = reinterpret_cast<const sockaddr_in6&>(storage).sin6_scope_id;
  char name[IF_NAMESIZE] = {};
  if (scope != 0 && if_indextoname(scope, name) != nullptr) return fmt::format("{}%{}", text, name);
  return text;
}

uint16_t SocketAddress::port() const {
  if (length == 0) return 0;
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

void SocketAddress::set_port(uint16_t port) {
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
  }
}

bool SocketAddress::is_loopback() const {
  if (length == 0) return false;
  const in6_addr v6 = as_v6(*this);
  return IN6_IS_ADDR_V4MAPPED(&v6) ? v6.s6_addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(&v6) != 0;
}

bool SocketAddress::same_host(const SocketAddress& other) const {
  if (length == 0 || other.length == 0) return false;
  if (is_loopback() && other.is_loopback()) return true;
  const in6_addr a = as_v6(*this);
  const in6_addr b = as_v6(other);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port) {
  return look_up(host, port, 0);
}

Result<SocketAddress> parse_address(const std::string& host, uint16_t port) {
  auto found = look_up(host, port, AI_NUMERICHOST);
  if (!found.ok()) {
    return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not an IP address", host));
  }
  return found.value().front();
}

SocketAddress any_address(uint16_t port) {
  SocketAddress address;
  if (ForkSafeFd probe = new_socket(AF_INET6); probe) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_any;
    address.length = sizeof v6;
    if (bind(probe.get(), raw(address), address.length) == 0) {
      address.set_port(port);
      return address;
    }
  }
  address = SocketAddress();
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_ANY);
  v4.sin_port = htons(port);
  address.length = sizeof v4;
  return address;
}

Result<ForkSafeFd> listen_on(const SocketAddress& address) {
  ForkSafeFd fd = new_socket(address.storage.ss_family);
  if (fd) {
    const int off = 0;
    if (address.storage.ss_family == AF_INET6) {
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    // Another listener on the port may be noticed by bind or only by listen.
    if (bind(fd.get(), raw(address), address.length) == 0 && listen(fd.get(), SOMAXCONN) == 0)
      return fd;
  }
  const int error = errno;
  return Status(error == EADDRINUSE ? Code::kAgain : Code::kSystem,
                fmt::format("cannot listen on {}: {}",
                            host_and_port(address.host(), address.port()), errno_text(error)));
}

Result<ForkSafeFd> dial(const SocketAddress& address) {
  ForkSafeFd fd = new_socket(address.storage.ss_family);
  if (fd && (connect(fd.get(), raw(address), address.length) == 0 || errno == EINPROGRESS))
    return fd;
  return Status(Code::kSystem, errno_text(errno));
}

Status connect_result(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return {Code::kSystem, errno_text(error)};
  if (remote_address(fd).length == 0) return Status(Code::kAgain);
  if (connected_to_itself(fd)) return {Code::kSystem, errno_text(ECONNREFUSED)};
  return {};
}

Result<ForkSafeFd> dial_and_wait(const SocketAddress& address, const Clock& clock,
                                 Nanoseconds deadline) {
  auto dialed = dial(address);
  if (!dialed.ok()) return dialed;
  for (;;) {
    const Nanoseconds left = std::max<Nanoseconds>(0, deadline - clock.now());
    pollfd entry{dialed.value().get(), POLLOUT, 0};
    // Rounded up: a wait that ends early would spin.
    const int timeout = static_cast<int>(std::min<Nanoseconds>(left / 1'000'000 + 1, 1000));
    const int ready = poll(&entry, 1, timeout);
    if (ready > 0) {
      const Status status = connect_result(entry.fd);
      if (status.ok()) return dialed;
      if (status.code() != Code::kAgain) return status;
    }
    if (clock.now() >= deadline) return Status(Code::kTimeout, "no answer");
  }
}

ForkSafeFd accept_from(int listener) {
  ForkSafeFd fd = ForkSafeFd::open(
      [listener] { return accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  if (fd) {
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return fd;
}

SocketAddress local_address(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return {};
  return address;
}

SocketAddress remote_address(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return {};
  return address;
}

}  // namespace asyncmesh::mesh
