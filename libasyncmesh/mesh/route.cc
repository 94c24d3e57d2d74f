#include "mesh/route.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/unique_handle.h"

namespace asyncmesh::mesh {

namespace {

using InterfaceList = UniqueHandle<ifaddrs*, &freeifaddrs>;

std::string interface_of(const SocketAddress& address) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const InterfaceList list(first);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress candidate;
    candidate.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&candidate.storage, entry->ifa_addr, candidate.length);
    if (candidate.host() == address.host()) return entry->ifa_name;
  }
  return {};
}

bool is_loopback_name(const std::string& host) {
  auto literal = parse_address(host, 0);
  return literal.ok() ? literal.value().is_loopback() : host == "localhost";
}

Result<SocketAddress> resolve_one(const std::string& host) {
  auto found = resolve(host, 0);
  if (!found.ok()) return found.status();
  return found.value().front();
}

bool is_loopback_or_empty(const std::string& host) {
  if (host.empty()) return true;
  auto address = resolve_one(host);
  return address.ok() && address.value().is_loopback();
}

bool is_any(const SocketAddress& address) {
  const std::string host = address.host();
  return host == "0.0.0.0" || host == "::";
}

}  // namespace

Result<Route> route_to(const std::string& url) {
  auto parsed = parse_url(url);
  if (!parsed.ok()) return parsed.status();
  auto addresses = resolve(parsed.value().host, parsed.value().port == 0 ? 1 : parsed.value().port);
  if (!addresses.ok()) return addresses.status();
  std::string trouble;
  for (const SocketAddress& address : addresses.value()) {
    // Connecting a datagram socket asks the routing table and sends nothing.
    const ForkSafeFd probe = ForkSafeFd::open(
        [&address] { return socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
    if (!probe || connect(probe.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                          address.length) != 0) {
      trouble = errno_text(errno);
      continue;
    }
    const SocketAddress local = local_address(probe.get());
    const bool known = !local.is_loopback() || is_loopback_name(parsed.value().host);
    return Route{local.host(), known ? interface_of(local) : std::string(), local.is_loopback()};
  }
  return Status(Code::kSystem, fmt::format("no route to {}: {}", parsed.value().host, trouble));
}

Result<Endpoints> find_endpoints(const MeshConfig& config) {
  auto url = parse_url(config.url);
  if (!url.ok()) return url.status();
  Endpoints endpoints;
  endpoints.url = url.value();
  if (endpoints.url.port == 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("rendezvous url \"{}\": port 0 cannot be dialed", config.url));
  }
  auto resolved = resolve(endpoints.url.host, endpoints.url.port);
  if (!resolved.ok()) return resolved.status();
  endpoints.rendezvous = std::move(resolved.value());

  const bool resolves_to_loopback =
      std::all_of(endpoints.rendezvous.begin(), endpoints.rendezvous.end(),
                  [](const SocketAddress& address) { return address.is_loopback(); });
  // Many systems map their own name to 127.0.1.1. With a secret such a name is meant for others
  // too.
  endpoints.loopback_only =
      resolves_to_loopback && (is_loopback_name(endpoints.url.host) || config.secret.empty()) &&
      is_loopback_or_empty(config.bind_address) && is_loopback_or_empty(config.announce_address);
  if (config.secret.empty() && !endpoints.loopback_only) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a secret is mandatory where an address is not loopback, and {} is "
                              "not: set ASYNCMESH_SECRET or ASYNCMESH_SECRET_FILE",
                              host_and_port(endpoints.url.host, endpoints.url.port)));
  }
  if (endpoints.loopback_only || (!resolves_to_loopback && endpoints.rendezvous.size() == 1)) {
    endpoints.serve = endpoints.rendezvous;
  }
  // The url may name an address that only a router in between has.
  if (!endpoints.loopback_only) endpoints.serve.push_back(any_address(endpoints.url.port));
  return endpoints;
}

Result<SocketAddress> listener_address(const MeshConfig& config, const Endpoints& endpoints,
                                       const SocketAddress& local) {
  if (!config.bind_address.empty()) return resolve_one(config.bind_address);
  if (!endpoints.loopback_only) return any_address(0);
  SocketAddress address = local;
  address.set_port(0);
  return address;
}

Result<std::string> announced_host(const MeshConfig& config, const SocketAddress& local) {
  for (const std::string* host : {&config.announce_address, &config.bind_address}) {
    if (host->empty()) continue;
    auto address = resolve_one(*host);
    if (!address.ok()) return address.status();
    if (!is_any(address.value())) return address.value().host();
  }
  return local.host();
}

}  // namespace asyncmesh::mesh
