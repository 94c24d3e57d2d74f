#include "mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "mesh/joiner.h"
#include "mesh/mesh_impl.h"

namespace asyncmesh::mesh {

namespace {

constexpr Nanoseconds kRetry = 20'000'000;
constexpr Nanoseconds kPatience = 1'000'000'000;  // until a wait is worth a line in the log

// Runs `attempt` until it gives something else than `retry`, or `deadline`.
template <typename Attempt>
auto persist(Attempt&& attempt, Code retry, const Clock& clock, const Logger& logger,
             Nanoseconds deadline) -> decltype(attempt()) {
  auto poller = Poller::create();
  if (!poller.ok()) return poller.status();
  const Nanoseconds start = clock.now();
  for (bool told = false;;) {
    auto result = attempt();
    if (result.code() != retry || clock.now() + kRetry >= deadline) return result;
    if (!told && clock.now() - start > kPatience) {
      told = true;
      logger.write(LogLevel::kWarning, "still trying: " + result.status().text());
    }
    poller.value()->wait(kRetry);
  }
}

Result<std::unique_ptr<RendezvousServer>> serve(const MeshConfig& config,
                                                const Endpoints& endpoints, const Identity& self,
                                                const Logger& logger) {
  RendezvousConfig rendezvous;
  rendezvous.addresses = endpoints.serve;
  rendezvous.secret = config.secret;
  rendezvous.reference = self;
  rendezvous.host = self.rank;
  return RendezvousServer::start(rendezvous, logger);
}

std::vector<PeerInfo> peers_of(const JoinedMesh& joined, const MeshConfig& config) {
  std::vector<PeerInfo> peers;
  for (const Identity& member : joined.members) {
    PeerInfo info;
    info.rank = member.rank;
    info.replica = member.replica;
    info.stage = member.stage;
    info.state = PeerState::kAlive;
    info.incarnation = member.incarnation;
    info.host = member.host;
    info.pid = member.pid;
    info.address = joined.addresses[member.rank];
    const auto& connection = joined.peers[member.rank];
    info.same_host = member.rank == config.rank || (connection && connection->same_host());
    peers.push_back(std::move(info));
  }
  return peers;
}

Result<JoinedMesh> join_alone(const Identity& self, const MeshConfig& config) {
  JoinedMesh joined;
  auto poller = Poller::create();
  if (!poller.ok()) return poller.status();
  joined.poller = std::move(poller.value());
  joined.members = {self};
  joined.addresses = {config.address};
  joined.peers.resize(1);
  joined.epoch = 1;
  return joined;
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::join(const MeshConfig& config, const Clock& clock,
                                         const Logger& logger, Nanoseconds deadline) {
  auto identity = identity_of(config);
  if (!identity.ok()) return identity.status();
  const Identity& self = identity.value();

  std::unique_ptr<RendezvousServer> server;
  Result<JoinedMesh> joined = Status(Code::kInternal);
  if (config.url.empty()) {
    if (self.world() != 1) {
      return Status(Code::kInvalidArgument, "a mesh of several ranks needs a rendezvous url");
    }
    joined = join_alone(self, config);
  } else {
    Digest key;
    if (!key_from_secret(config.secret, &key)) return Status(Code::kInternal, "SHA-256 failed");
    // A name may appear only when its host comes up.
    auto endpoints =
        persist([&] { return find_endpoints(config); }, Code::kSystem, clock, logger, deadline);
    if (!endpoints.ok()) return endpoints.status();
    if (self.rank == 0 && !config.external_rendezvous) {
      auto started = persist([&] { return serve(config, endpoints.value(), self, logger); },
                             Code::kAgain, clock, logger, deadline);
      if (!started.ok()) return Status(Code::kSystem, started.status().text());
      server = std::move(started.value());
    }
    joined = Joiner(config, endpoints.value(), clock, logger).run(self, key, deadline);
  }
  if (!joined.ok()) return joined.status();
  Membership membership(self.rank, config.peer_timeout, peers_of(joined.value(), config),
                        joined.value().rendezvous != nullptr, joined.value().epoch, clock.now());
  return std::unique_ptr<Mesh>(std::make_unique<MeshImpl>(
      self.rank, std::move(joined.value()), std::move(server), std::move(membership), logger));
}

}  // namespace asyncmesh::mesh
