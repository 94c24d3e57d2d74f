// The rendezvous: accepts members, keeps their rosters, and tells everybody who came and went.
//
// One thread of its own with all signals blocked, so that a busy application does not stop it. It
// serves any number of jobs, told apart by run id. Strangers: at most `kMaxPending` connections
// that are not authenticated are kept, the oldest goes first; each has `handshake_timeout`. What
// they send is bounded by the frame limits, and what is logged about them by a rate.
//
// Destruction tells the members that the rendezvous closes, waits up to a quarter of a second for
// them to hang up (unless its host ended without leaving), and joins the thread. In a forked child
// it does nothing.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "mesh/identity.h"
#include "mesh/socket.h"

namespace asyncmesh::mesh {

struct RendezvousConfig {
  std::vector<SocketAddress> addresses;  // tried in order until one can be listened on
  std::string secret;
  // What all members must share. Empty: the first member of each run id decides.
  std::optional<Identity> reference;
  std::optional<Rank> host;  // the rank whose process this is
  Nanoseconds handshake_timeout = 5'000'000'000;
};

class RendezvousServer {
 public:
  static constexpr size_t kMaxPending = 256;

  // kAgain: the port is in use, which a dying process may cause; kSystem: no such address.
  static Result<std::unique_ptr<RendezvousServer>> start(const RendezvousConfig& config,
                                                         const Logger& logger);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  uint16_t port() const { return port_; }

 private:
  class Loop;

  RendezvousServer(ForkSafeFd stop, std::unique_ptr<Loop> loop, uint16_t port);

  const pid_t pid_;
  ForkSafeFd stop_;  // an eventfd: written once, ends the loop
  std::unique_ptr<Loop> loop_;
  uint16_t port_;
  bool running_ = false;
  pthread_t thread_{};
};

}  // namespace asyncmesh::mesh
