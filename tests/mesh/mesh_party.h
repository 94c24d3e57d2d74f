// Several ranks in one process, for tests over real sockets on the loopback interface.
//
// Joining blocks, so each rank joins on a thread of its own; afterwards one thread drives all of
// them
// (`pump`), sleeping in poll() until one of their descriptors is readable.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "mesh/mesh.h"
#include "mesh/socket.h"

namespace asyncmesh::mesh {

inline constexpr Nanoseconds kSecond = 1'000'000'000;

// A port that is bound, but not listened on: nobody else gets it, and a rendezvous can still use
// it.
class ReservedPort {
 public:
  ReservedPort();
  uint16_t port() const { return port_; }
  std::string url() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

 private:
  ForkSafeFd fd_;
  uint16_t port_ = 0;
};

class LogLines {
 public:
  Logger logger() { return {&LogLines::sink, this, LogLevel::kDebug}; }
  bool contains(const std::string& text) const;

 private:
  static void sink(void* user, LogLevel level, std::string_view text);
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct Recorder final : MeshListener {
  struct Message {
    Rank from;
    uint16_t type;
    std::vector<std::byte> body;
  };
  std::vector<Message> messages;
  std::vector<PeerInfo> peers;
  std::vector<Status> mesh_lost;

  void on_message(Rank from, uint16_t type, std::span<const std::byte> body) override {
    messages.push_back({from, type, {body.begin(), body.end()}});
  }
  void on_peer(const PeerInfo& peer) override { peers.push_back(peer); }
  void on_mesh_lost(const Status& why) override { mesh_lost.push_back(why); }
  // The last state reported for `rank`; kAlive if none.
  PeerState state(Rank rank) const;
  bool saw(Rank rank, PeerState state) const;
};

MeshConfig config_of(Rank rank, uint32_t world, const std::string& url);

struct Member {
  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<Recorder> recorder = std::make_unique<Recorder>();
};

// Joins all at once; fails the test if one cannot.
std::vector<Member> join_all(const std::vector<MeshConfig>& configs, const Logger& logger = {});
std::vector<Member> join_world(uint32_t world, const std::string& url, const Logger& logger = {});

// Drives all members that have a mesh until `done`, or for `limit`. Returns whether it was done.
bool pump(std::vector<Member>& members, const std::function<bool()>& done,
          Nanoseconds limit = 20 * kSecond);

}  // namespace asyncmesh::mesh
