// Membership: who is in the job, who died, and an authenticated control socket to every peer.
//
// Join: every rank connects to the rendezvous (rank 0 serves it inside its process, or a standalone
// process does), proves that it knows the secret, and states rank, world geometry, versions, and
// the address of its control listener. The rendezvous checks that all agree and that no rank joins
// twice, and then publishes the membership. Ranks connect to each other pairwise (the higher rank
// dials), prove the secret again, and exchange the opaque `address` blobs (UCX addresses): only
// authenticated peers see them.
//
// Who is dead: EOF or an error on a control socket, or silence for `peer_timeout` of the observer's
// own progress time, makes a peer *suspect* (nothing is posted to it any more); the rendezvous
// alone removes it, raising the membership epoch, and tells everyone, with the reason. If the
// rendezvous itself is gone (its process died), the observer's own verdict stands. A removed
// process that resumes is told so: its own mesh is lost (`on_mesh_lost`), and it stops writing. A
// rank that leaves is never reported lost.
//
// Threads: everything belongs to the progress owner, except `join`, which runs before there is one
// (it blocks up to its deadline). The rendezvous server runs on a thread of its own, so that a busy
// application does not stop it. Signs of life are sent from `progress_st`: call it at least every
// `peer_timeout` / 4, or peers that are at work will think that this process is stopped. After a
// fork, the child's copy does nothing and closes nothing that is the parent's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

namespace asyncmesh::mesh {

using Rank = uint32_t;

struct MeshConfig {
  std::string url;     // tcp://host:port; rank 0 serves it unless `external_rendezvous`
  std::string secret;  // empty: only where every address is loopback
  std::string run_id;  // keeps two jobs apart that share a rendezvous
  Rank rank = 0;
  uint32_t replicas = 1;  // R
  uint32_t stages = 1;    // P; world = R * P
  uint32_t replica = 0;   // rank = replica * stages + stage by default
  uint32_t stage = 0;
  bool external_rendezvous = false;
  // Of the control listener. Empty: all interfaces (loopback for a loopback url).
  std::string bind_address;
  // What peers dial. Empty: the address that routes to the rendezvous.
  std::string announce_address;
  Nanoseconds peer_timeout = 10'000'000'000;  // the one knob: heartbeat = / 8, probe = / 4, ...
  std::string library_version;                // must agree on all ranks
  std::string transport_version;              // e.g. "ucx 1.13"; must agree
  std::vector<std::byte> address;             // opaque, for peers
};

enum class PeerState : uint32_t { kAbsent, kAlive, kSuspect, kLost, kLeft };

struct PeerInfo {
  Rank rank = 0;
  uint32_t replica = 0;
  uint32_t stage = 0;
  PeerState state = PeerState::kAbsent;
  uint64_t incarnation = 0;
  bool same_host = false;          // by boot id and network of the control connection
  std::string host;                // for people
  uint32_t pid = 0;                // for people
  std::vector<std::byte> address;  // what the peer put into MeshConfig::address
  std::string reason;              // why suspect or lost
};

class MeshListener {
 public:
  virtual ~MeshListener() = default;
  virtual void on_message(Rank from, uint16_t type, std::span<const std::byte> body) = 0;
  // Every transition after join: suspect, alive again, lost (with the reason), left.
  virtual void on_peer(const PeerInfo& peer) = 0;
  // This rank was removed, or the mesh cannot go on. Comes at most once.
  virtual void on_mesh_lost(const Status& why) = 0;
};

class Mesh {
 public:
  virtual ~Mesh() = default;  // abrupt: sockets close; peers see a loss unless leave_st completed

  // Blocks until every rank is here and pairwise connected. kTimeout (naming the ranks that are
  // missing), kRefused (wrong secret), kMismatch (geometry, version, duplicate rank: with the
  // difference), kSystem (address, port).
  // `deadline` is absolute, of `clock`, which must be a running clock unless the world is one rank
  // without a url. `clock` is not kept; `logger` is copied, and its sink also called by the
  // rendezvous' thread.
  static Result<std::unique_ptr<Mesh>> join(const MeshConfig& config, const Clock& clock,
                                            const Logger& logger, Nanoseconds deadline);

  // Before the first progress; until then messages wait, and no signs of life are sent.
  virtual void set_listener_st(MeshListener* listener) = 0;
  virtual const PeerInfo& peer(Rank rank) const = 0;  // 0 .. world - 1, self included
  virtual uint32_t world() const = 0;
  virtual uint64_t membership_epoch() const = 0;

  // Queued and sent without blocking; in order per peer; authenticated (each message carries a MAC
  // with a counter). kPeerLost (or left), kTooLarge (> 1 MiB), kAgain (the peer does not read: 16
  // MiB are queued), kInvalidState (after leave_st, or in a forked child), kInvalidArgument (no
  // peer).
  virtual Code send_st(Rank to, uint16_t type, std::span<const std::byte> body) = 0;
  // Reads, writes, heartbeats, judges. Returns events handled. Does at most one epoll system call.
  // Calls the listener, which may send and leave, but neither call progress_st nor destroy the
  // mesh.
  virtual uint32_t progress_st(Nanoseconds now) = 0;
  virtual Nanoseconds next_deadline_st() const = 0;
  virtual int event_fd() const = 0;  // an epoll fd: readable when progress_st has work
  // Announces a graceful departure to the rendezvous and all peers; they report kLeft. Sent by the
  // next progress_st; done when left_st(). Keep calling progress_st until then.
  virtual void leave_st() = 0;
  virtual bool left_st() const = 0;
};

}  // namespace asyncmesh::mesh
