#include "mesh_party.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

namespace asyncmesh::mesh {

ReservedPort::ReservedPort() {
  fd_ = ForkSafeFd::open([] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  const int on = 1;
  setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const SocketAddress address = parse_address("127.0.0.1", 0).value();
  EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length),
            0);
  port_ = local_address(fd_.get()).port();
}

void LogLines::sink(void* user, LogLevel, std::string_view text) {
  auto* const self = static_cast<LogLines*>(user);
  const std::lock_guard<std::mutex> lock(self->mutex_);
  self->lines_.emplace_back(text);
}

bool LogLines::contains(const std::string& text) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(lines_.begin(), lines_.end(), [&text](const std::string& line) {
    return line.find(text) != std::string::npos;
  });
}

PeerState Recorder::state(Rank rank) const {
  for (auto peer = peers.rbegin(); peer != peers.rend(); ++peer) {
    if (peer->rank == rank) return peer->state;
  }
  return PeerState::kAlive;
}

bool Recorder::saw(Rank rank, PeerState state) const {
  return std::any_of(peers.begin(), peers.end(), [&](const PeerInfo& peer) {
    return peer.rank == rank && peer.state == state;
  });
}

MeshConfig config_of(Rank rank, uint32_t world, const std::string& url) {
  MeshConfig config;
  config.url = url;
  config.secret = "a long and random secret";
  config.rank = rank;
  config.replicas = world;
  config.replica = rank;
  config.library_version = "0.1.0";
  config.transport_version = "none 1.0";
  config.address.assign(10 + rank, static_cast<std::byte>(rank));
  return config;
}

std::vector<Member> join_all(const std::vector<MeshConfig>& configs, const Logger& logger) {
  const SteadyClock clock;
  std::vector<Member> members(configs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < configs.size(); ++i) {
    threads.emplace_back([&, i] {
      auto mesh = Mesh::join(configs[i], clock, logger, deadline_after(clock, 30 * kSecond));
      EXPECT_TRUE(mesh.ok()) << "rank " << configs[i].rank << ": " << mesh.status().text();
      if (mesh.ok()) members[i].mesh = std::move(mesh.value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Member& member : members) {
    if (member.mesh) member.mesh->set_listener_st(member.recorder.get());
  }
  return members;
}

std::vector<Member> join_world(uint32_t world, const std::string& url, const Logger& logger) {
  std::vector<MeshConfig> configs;
  for (Rank rank = 0; rank < world; ++rank) configs.push_back(config_of(rank, world, url));
  return join_all(configs, logger);
}

bool pump(std::vector<Member>& members, const std::function<bool()>& done, Nanoseconds limit) {
  const SteadyClock clock;
  const Nanoseconds deadline = deadline_after(clock, limit);
  while (!done()) {
    const Nanoseconds now = clock.now();
    if (now >= deadline) return false;
    Nanoseconds next = std::min(deadline, now + kSecond / 10);
    std::vector<pollfd> fds;
    for (Member& member : members) {
      if (!member.mesh) continue;
      member.mesh->progress_st(now);
      next = std::min(next, member.mesh->next_deadline_st());
      fds.push_back({member.mesh->event_fd(), POLLIN, 0});
    }
    if (done()) return true;
    poll(fds.data(), fds.size(),
         static_cast<int>(std::max<Nanoseconds>(0, (next - now) / 1'000'000)));
  }
  return true;
}

}  // namespace asyncmesh::mesh
