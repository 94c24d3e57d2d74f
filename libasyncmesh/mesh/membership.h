// A member's view of its peers after the join (sans-I/O): who is suspect, lost or left.
//
//      alive <--heard again-- suspect --the rendezvous removed it--> lost
//        |---silent, or its connection ended---^   (without a rendezvous: by one's own verdict)
//        '---it said so----> left
//
// Facts come in by calls while pending input is drained; verdicts fall only in `judge`, after it.
// So a process that was stopped first reads what happened meanwhile, and silence counts in progress
// time only. What has to be done (send, close, report) comes out of `take_actions`, in order.
//
// The rendezvous counts as gone when its connection ended, or when it was silent like a peer; then
// it is told so (kAbandon) and own verdicts stand. A process that was removed learns it from the
// rendezvous, or from the majority of its peers. Threads: one (the progress owner).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "mesh/mesh.h"
#include "mesh/messages.h"
#include "mesh/progress_time.h"

namespace asyncmesh::mesh {

class Membership {
 public:
  enum class Do { kTellRendezvous, kTellPeer, kClosePeer, kCloseRendezvous, kReport, kMeshLost };
  struct Action {
    Do what;
    Rank rank = 0;
    MeshMessage type = MeshMessage::kHeartbeat;  // kTell...
    MessageBody body;                            // kTell...
    PeerState state = PeerState::kAlive;         // kReport: the transition
    Status why;                                  // kMeshLost
  };

  // `peers` by rank, all alive. `has_rendezvous` false: a mesh of one.
  Membership(Rank self, Nanoseconds peer_timeout, std::vector<PeerInfo> peers, bool has_rendezvous,
             uint64_t epoch, Nanoseconds now);

  // Facts.
  void heard(Rank rank);
  void heard_rendezvous();
  void on_peer_message(Rank from, MeshMessage type, ByteSpan body);
  void on_rendezvous_message(MeshMessage type, ByteSpan body);
  void on_peer_closed(Rank rank, const std::string& why);
  void on_rendezvous_closed();

  // Verdicts, heartbeats. To be called after each draining, and at `next_deadline` at the latest.
  void judge(Nanoseconds now);
  Nanoseconds next_deadline() const { return next_tick_; }

  void leave();  // tells everyone
  // `flushed`: nothing is queued for any peer.
  bool left(bool flushed) const;

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }
  const PeerInfo& peer(Rank rank) const { return peers_[rank].info; }
  uint32_t world() const { return static_cast<uint32_t>(peers_.size()); }
  uint64_t epoch() const { return epoch_; }
  bool leaving() const { return leaving_; }
  bool mesh_lost() const { return mesh_lost_; }

 private:
  struct Peer {
    PeerInfo info;
    Nanoseconds heard = 0;  // progress time
    bool connected = true;
    bool leave_done = false;          // it knows that we leave
    bool left_by_rendezvous = false;  // reported once its own word, or its end, has come
    bool dropped_us = false;
    std::optional<std::string> removed;  // the rendezvous' reason
    std::optional<Suspicion> told;       // what the rendezvous knows of our suspicion
    std::string closed;                  // why the connection ended
  };

  bool present(Rank rank) const;  // a peer that is alive or suspect
  void tell(Do what, Rank rank, MeshMessage type, MessageBody body = {});
  void set_state(Rank rank, PeerState state, std::string reason);
  void judge_self();
  void judge_rendezvous();
  void judge_peer(Rank rank);
  void suspect(Rank rank, Suspicion suspicion, const std::string& reason);
  void lose(Rank rank, const std::string& reason, bool tell_it);
  void lose_mesh(Status why);
  void beat(Nanoseconds now);

  const Rank self_;
  const Timers timers_;
  ProgressTime time_;
  std::vector<Peer> peers_;
  bool rendezvous_;                   // is there, as far as we know
  Nanoseconds rendezvous_heard_ = 0;  // progress time
  bool rendezvous_knows_leave_ = false;
  uint64_t epoch_;
  std::optional<std::string> removed_;  // we, and why
  bool leaving_ = false;
  bool mesh_lost_ = false;
  Nanoseconds next_tick_;
  Nanoseconds next_beat_;
  std::vector<Action> actions_;
};

}  // namespace asyncmesh::mesh
