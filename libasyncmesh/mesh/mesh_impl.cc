#include "mesh/mesh_impl.h"

#include <fmt/format.h>

#include <algorithm>

namespace asyncmesh::mesh {

MeshImpl::MeshImpl(Rank self, JoinedMesh joined, std::unique_ptr<RendezvousServer> server,
                   Membership membership, const Logger& logger)
    : self_(self),
      logger_(logger),
      server_(std::move(server)),
      poller_(std::move(joined.poller)),
      peers_(std::move(joined.peers)),
      rendezvous_(std::move(joined.rendezvous)),
      membership_(std::move(membership)),
      held_(std::move(joined.held)) {
  ready_.reserve(peers_.size() + 1);
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (rank != self_ && !peers_[rank])
      membership_.on_peer_closed(rank, "it ended right after the start");
  }
}

MeshImpl::~MeshImpl() = default;

Code MeshImpl::send_st(Rank to, uint16_t type, std::span<const std::byte> body) {
  if (to >= peers_.size() || to == self_) return Code::kInvalidArgument;
  if (membership_.leaving() || poller_->fd() < 0) return Code::kInvalidState;
  if (body.size() > kMaxBody) return Code::kTooLarge;
  const PeerState state = membership_.peer(to).state;
  if (!peers_[to] || state == PeerState::kLost || state == PeerState::kLeft) return Code::kPeerLost;
  return peers_[to]->send(Space::kApplication, type, body);
}

uint32_t MeshImpl::progress_st(Nanoseconds now) {
  if (poller_->fd() < 0 || listener_ == nullptr) return 0;  // a forked child; or nobody to tell
  messages_ = 0;
  uint32_t done = deliver_held();
  ready_.clear();
  for (const epoll_event& event : poller_->wait(0)) {
    ready_.push_back(static_cast<Rank>(event.data.u64));
  }
  for (const Rank from : ready_) {
    ControlConnection* const connection =
        from == kRendezvousRank ? rendezvous_.get() : peers_[from].get();
    if (connection != nullptr) drain(from, *connection);
  }
  membership_.judge(now);
  done += carry_out();
  return done + messages_;
}

uint32_t MeshImpl::deliver_held() {
  if (held_.empty()) return 0;
  const std::vector<HeldFrame> held = std::exchange(held_, {});
  for (const HeldFrame& frame : held) take(frame.from, frame.space, frame.type, frame.body);
  return static_cast<uint32_t>(held.size());
}

void MeshImpl::drain(Rank from, ControlConnection& connection) {
  const Status status = connection.on_event(*this);
  if (from == kRendezvousRank) {
    if (connection.received()) membership_.heard_rendezvous();
    if (!status.ok()) membership_.on_rendezvous_closed();
  } else {
    if (connection.received()) membership_.heard(from);
    if (!status.ok()) membership_.on_peer_closed(from, status.text());
  }
}

void MeshImpl::on_frame(ControlConnection& from, const ControlFrame& frame) {
  ++messages_;
  take(from.peer().rank, frame.space, frame.type, frame.body);
}

void MeshImpl::take(Rank from, Space space, uint16_t type, ByteSpan body) {
  if (from == kRendezvousRank) {
    if (space == Space::kMesh)
      membership_.on_rendezvous_message(static_cast<MeshMessage>(type), body);
  } else if (space == Space::kMesh) {
    membership_.on_peer_message(from, static_cast<MeshMessage>(type), body);
  } else if (space == Space::kApplication && membership_.peer(from).state != PeerState::kLost &&
             !membership_.mesh_lost()) {
    listener_->on_message(from, type, body);
  }
}

uint32_t MeshImpl::carry_out() {
  uint32_t reported = 0;
  // The listener may cause further actions by leaving.
  for (auto actions = membership_.take_actions(); !actions.empty();
       actions = membership_.take_actions()) {
    for (const Membership::Action& action : actions) {
      carry_out(action);
      if (action.what == Membership::Do::kReport || action.what == Membership::Do::kMeshLost)
        ++reported;
    }
  }
  return reported;
}

void MeshImpl::carry_out(const Membership::Action& action) {
  switch (action.what) {
    case Membership::Do::kTellRendezvous:
      tell(rendezvous_.get(), action);
      return;
    case Membership::Do::kTellPeer:
      tell(peers_[action.rank].get(), action);
      return;
    case Membership::Do::kClosePeer:
      peers_[action.rank].reset();
      return;
    case Membership::Do::kCloseRendezvous:
      rendezvous_.reset();
      return;
    case Membership::Do::kReport:
      report(action);
      return;
    case Membership::Do::kMeshLost:
      logger_.write(LogLevel::kError, action.why.text());
      listener_->on_mesh_lost(action.why);
      return;
  }
}

void MeshImpl::tell(ControlConnection* connection, const Membership::Action& action) {
  if (connection == nullptr) return;
  // To a stopped peer, signs of life would pile up.
  if (action.type == MeshMessage::kHeartbeat && connection->has_queued()) return;
  connection->send(Space::kMesh, static_cast<uint16_t>(action.type), action.body);
}

void MeshImpl::report(const Membership::Action& action) {
  PeerInfo info = membership_.peer(action.rank);
  info.state = action.state;
  if (action.state == PeerState::kLost && logger_.enabled(LogLevel::kError)) {
    logger_.write(LogLevel::kError, fmt::format("peer lost: {}", info.reason));
  } else if (action.state == PeerState::kSuspect && logger_.enabled(LogLevel::kWarning)) {
    logger_.write(LogLevel::kWarning, fmt::format("peer suspect: {}", info.reason));
  } else if (logger_.enabled(LogLevel::kInfo)) {
    logger_.write(LogLevel::kInfo,
                  fmt::format("rank {} ({}, pid {}) {}", info.rank, info.host, info.pid,
                              action.state == PeerState::kLeft ? "left" : "is back"));
  }
  listener_->on_peer(info);
}

void MeshImpl::leave_st() { membership_.leave(); }

bool MeshImpl::left_st() const {
  if (poller_->fd() < 0) return true;
  const bool flushed = std::none_of(peers_.begin(), peers_.end(), [](const auto& connection) {
    return connection != nullptr && connection->has_queued();
  });
  return membership_.left(flushed);
}

}  // namespace asyncmesh::mesh
