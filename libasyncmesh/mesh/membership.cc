#include "mesh/membership.h"

#include <fmt/format.h>

#include <algorithm>

namespace asyncmesh::mesh {

namespace {

std::string name_of(const PeerInfo& peer) {
  return fmt::format("rank {} ({}, pid {})", peer.rank, peer.host, peer.pid);
}

}  // namespace

Membership::Membership(Rank self, Nanoseconds peer_timeout, std::vector<PeerInfo> peers,
                       bool has_rendezvous, uint64_t epoch, Nanoseconds now)
    : self_(self),
      timers_(peer_timeout),
      time_(now, timers_.heartbeat),
      rendezvous_(has_rendezvous),
      epoch_(epoch),
      next_tick_(now),
      next_beat_(now) {
  for (PeerInfo& info : peers) {
    Peer peer;
    peer.info = std::move(info);
    peers_.push_back(std::move(peer));
  }
}

bool Membership::present(Rank rank) const {
  const PeerState state = peers_[rank].info.state;
  return rank != self_ && (state == PeerState::kAlive || state == PeerState::kSuspect);
}

void Membership::tell(Do what, Rank rank, MeshMessage type, MessageBody body) {
  Action action{what, rank, type, std::move(body), PeerState::kAlive, {}};
  actions_.push_back(std::move(action));
}

void Membership::set_state(Rank rank, PeerState state, std::string reason) {
  PeerInfo& info = peers_[rank].info;
  if (info.state == state) return;
  info.state = state;
  info.reason = std::move(reason);
  actions_.push_back({Do::kReport, rank, MeshMessage::kHeartbeat, {}, state, {}});
}

void Membership::heard(Rank rank) { peers_[rank].heard = time_.elapsed(); }

void Membership::heard_rendezvous() { rendezvous_heard_ = time_.elapsed(); }

void Membership::on_peer_message(Rank from, MeshMessage type, ByteSpan body) {
  Peer& peer = peers_[from];
  if (type == MeshMessage::kLeave) {
    tell(Do::kTellPeer, from, MeshMessage::kLeaveDone);
    // Its last word: what it sent before has been delivered.
    if (present(from)) set_state(from, PeerState::kLeft, {});
  } else if (type == MeshMessage::kLeaveDone) {
    peer.leave_done = true;
  } else if (type == MeshMessage::kRemoved) {
    MembershipMessage message;
    if (!decode(body, &message) || message.rank != self_) return;
    peer.dropped_us = true;
    peer.closed = fmt::format("it removed this process: {}", message.reason);
  }
}

void Membership::on_rendezvous_message(MeshMessage type, ByteSpan body) {
  if (type == MeshMessage::kLeaveDone) {
    rendezvous_knows_leave_ = true;
  } else if (type == MeshMessage::kClosing) {
    on_rendezvous_closed();
  } else if (type == MeshMessage::kRemoved || type == MeshMessage::kMemberLeft) {
    MembershipMessage message;
    if (!decode(body, &message) || message.rank >= peers_.size()) return;
    epoch_ = std::max(epoch_, message.epoch);
    if (type == MeshMessage::kMemberLeft) {
      peers_[message.rank].left_by_rendezvous = true;
    } else if (message.rank == self_) {
      removed_ = message.reason;
    } else {
      peers_[message.rank].removed = message.reason;
    }
  }
}

void Membership::on_peer_closed(Rank rank, const std::string& why) {
  Peer& peer = peers_[rank];
  if (!peer.connected) return;
  peer.connected = false;
  if (peer.closed.empty()) peer.closed = fmt::format("its control connection ended: {}", why);
  tell(Do::kClosePeer, rank, MeshMessage::kHeartbeat);
}

void Membership::on_rendezvous_closed() {
  if (!rendezvous_) return;
  rendezvous_ = false;
  tell(Do::kCloseRendezvous, 0, MeshMessage::kHeartbeat);
}

void Membership::judge(Nanoseconds now) {
  time_.advance(now);
  if (mesh_lost_) return;
  judge_self();
  if (mesh_lost_) return;
  judge_rendezvous();
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (present(rank)) judge_peer(rank);
  }
  if (now >= next_beat_) beat(now);
  next_tick_ = now + timers_.tick;
}

void Membership::judge_self() {
  if (removed_) {
    lose_mesh(Status(
        Code::kPeerLost,
        fmt::format("this process, rank {}, was removed from the mesh: {}", self_, *removed_)));
    return;
  }
  uint32_t droppers = 0;
  uint32_t others = 0;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (!present(rank)) continue;
    ++others;
    if (peers_[rank].dropped_us) ++droppers;
  }
  if (2 * droppers <= others) return;
  const auto dropper =
      std::find_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.dropped_us; });
  lose_mesh(
      Status(Code::kPeerLost, fmt::format("this process, rank {}, was removed from the mesh by its "
                                          "peers: {}: {}",
                                          self_, name_of(dropper->info), dropper->closed)));
}

void Membership::judge_rendezvous() {
  if (!rendezvous_ || time_.elapsed() - rendezvous_heard_ < timers_.suspect) return;
  if (rendezvous_knows_leave_) return;  // who has left gets no signs of life
  rendezvous_ = false;
  // It may only be stopped. When it resumes it must not believe that we died.
  tell(Do::kTellRendezvous, 0, MeshMessage::kAbandon);
  tell(Do::kCloseRendezvous, 0, MeshMessage::kHeartbeat);
}

void Membership::judge_peer(Rank rank) {
  Peer& peer = peers_[rank];
  if (peer.removed) {
    lose(rank, *peer.removed, true);
    return;
  }
  const Nanoseconds silence = time_.elapsed() - peer.heard;
  if (!peer.connected || peer.dropped_us) {
    if (peer.left_by_rendezvous || leaving_) {
      set_state(rank, PeerState::kLeft, {});
    } else if (!rendezvous_) {
      lose(rank, peer.closed, false);
    } else {
      suspect(rank, Suspicion::kClosed, peer.closed);
    }
  } else if (silence >= timers_.suspect && !leaving_) {  // who leaves gets no signs of life
    const std::string reason = fmt::format("silent for {} ms", silence / 1'000'000);
    if (peer.left_by_rendezvous) {
      set_state(rank, PeerState::kLeft, {});
    } else if (!rendezvous_) {
      lose(rank, reason, true);
    } else {
      suspect(rank, Suspicion::kSilent, reason);
    }
  } else if (peer.info.state == PeerState::kSuspect) {
    if (rendezvous_) tell(Do::kTellRendezvous, 0, MeshMessage::kClear, encode_ranks({rank}));
    peer.told.reset();
    set_state(rank, PeerState::kAlive, {});
  }
}

void Membership::suspect(Rank rank, Suspicion suspicion, const std::string& reason) {
  Peer& peer = peers_[rank];
  if (peer.told == suspicion) return;
  peer.told = suspicion;
  tell(Do::kTellRendezvous, 0, MeshMessage::kSuspect,
       encode(SuspectMessage{rank, suspicion, reason}));
  set_state(rank, PeerState::kSuspect, fmt::format("{}: {}", name_of(peer.info), reason));
}

void Membership::lose(Rank rank, const std::string& reason, bool tell_it) {
  Peer& peer = peers_[rank];
  if (!rendezvous_) ++epoch_;  // with a rendezvous, the epoch is its own
  if (tell_it && peer.connected) {
    tell(Do::kTellPeer, rank, MeshMessage::kRemoved,
         encode(MembershipMessage{epoch_, rank, reason}));
  }
  if (peer.connected) {
    peer.connected = false;
    tell(Do::kClosePeer, rank, MeshMessage::kHeartbeat);
  }
  set_state(rank, PeerState::kLost, fmt::format("{}: {}", name_of(peer.info), reason));
}

void Membership::lose_mesh(Status why) {
  mesh_lost_ = true;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].connected || rank == self_) continue;
    peers_[rank].connected = false;
    tell(Do::kClosePeer, rank, MeshMessage::kHeartbeat);
  }
  if (rendezvous_) tell(Do::kCloseRendezvous, 0, MeshMessage::kHeartbeat);
  rendezvous_ = false;
  next_tick_ = kNever;
  actions_.push_back(
      {Do::kMeshLost, self_, MeshMessage::kHeartbeat, {}, PeerState::kLost, std::move(why)});
}

void Membership::beat(Nanoseconds now) {
  next_beat_ = now + timers_.heartbeat;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (present(rank) && peers_[rank].connected) tell(Do::kTellPeer, rank, MeshMessage::kHeartbeat);
  }
  if (rendezvous_) tell(Do::kTellRendezvous, 0, MeshMessage::kHeartbeat);
}

void Membership::leave() {
  if (leaving_ || mesh_lost_) return;
  leaving_ = true;
  next_tick_ = 0;  // what follows is sent by the next progress
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (present(rank) && peers_[rank].connected) tell(Do::kTellPeer, rank, MeshMessage::kLeave);
  }
  if (rendezvous_) tell(Do::kTellRendezvous, 0, MeshMessage::kLeave);
}

bool Membership::left(bool flushed) const {
  if (mesh_lost_) return true;
  if (!leaving_) return false;
  if (rendezvous_knows_leave_) return flushed;
  if (rendezvous_) return false;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (present(rank) && peers_[rank].connected && !peers_[rank].leave_done) return false;
  }
  return true;
}

}  // namespace asyncmesh::mesh
