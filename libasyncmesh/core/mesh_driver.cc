// The part of the session that the progress owner runs.
#include <fmt/format.h>

#include <algorithm>

#include "core/mesh_session.h"

namespace asyncmesh::core {
namespace {

// A look at the control sockets is a system call: an owner that never sleeps makes one so often.
constexpr Nanoseconds kLookInterval = 200'000;
// A transport without an event fd is polled instead of slept on.
constexpr Nanoseconds kNap = 100'000;

}  // namespace

uint32_t MeshSession::progress_st(Nanoseconds now) {
  uint32_t events = engines_ == nullptr ? 0 : engines_->progress_st();
  events += links_->progress_st(now);
  if (now >= look_at_ || now >= mesh_->next_deadline_st()) {
    look_at_ = now + kLookInterval;
    events += mesh_->progress_st(now);
    events += backlog_.drain_st(
        [this](Rank to, MessageType type, const Body& body) { return offer_st(to, type, body); });
  }
  return events;
}

bool MeshSession::arm_st(Nanoseconds now) {
  links_->flush_st(now);
  armed_at_ = now;
  return engines_ == nullptr || engines_->arm_st();
}

Nanoseconds MeshSession::next_deadline_st() const {
  Nanoseconds next = std::min(mesh_->next_deadline_st(), links_->next_deadline_st());
  if (engines_ == nullptr) return next;
  if (engines_->sleepless_st()) next = std::min(next, armed_at_ + kNap);
  return std::min(next, engines_->next_deadline_st());
}

void MeshSession::add_fds_st(std::vector<pollfd>& fds) const {
  fds.push_back({mesh_->event_fd(), POLLIN, 0});
  if (engines_ != nullptr) engines_->add_fds(fds);
}

void MeshSession::woken_st(Nanoseconds now, std::span<const pollfd> fds) {
  look_at_ = fds.front().revents != 0 ? now : now + kLookInterval;
}

void MeshSession::send_st(Rank to, MessageType type, const Body& body) {
  look_at_ = 0;  // let it out
  const bool queue = backlog_.waits_for_st(to);
  if (!queue && offer_st(to, type, body) != Code::kAgain) return;
  backlog_.put_st(to, type, body);
  if (!queue)
    context_->logger().write(LogLevel::kWarning,
                             fmt::format("rank {} does not read its control messages", to));
}

Code MeshSession::offer_st(Rank to, MessageType type, const Body& body) {
  const Code code = mesh_->send_st(to, static_cast<uint16_t>(type), body);
  // A peer that is gone is told by on_peer; a message that is too large is ours to explain.
  if (code == Code::kTooLarge)
    context_->logger().write(
        LogLevel::kError, fmt::format("a control message of {} bytes is too large", body.size()));
  return code;
}

void MeshSession::on_message(Rank from, uint16_t type, std::span<const std::byte> body) {
  const auto kind = static_cast<MessageType>(type);
  if (kind != MessageType::kAveragerHello) {
    links_->on_message_st(from, kind, body);
    return;
  }
  AveragerHello hello;
  if (decode(body, &hello)) hellos_.put(from, std::move(hello));
}

void MeshSession::on_peer(const mesh::PeerInfo& peer) {
  const auto announce = [&](EventKind kind, Code code) {
    context_->events().push({kind, peer.rank, code, 0, peer.reason});
  };
  switch (peer.state) {
    case mesh::PeerState::kAbsent:
      return;
    case mesh::PeerState::kSuspect:
      links_->suspend_st(peer.rank);
      announce(EventKind::kPeerSuspect, Code::kOk);
      return;
    case mesh::PeerState::kAlive:
      links_->resume_st(peer.rank);
      announce(EventKind::kPeerAlive, Code::kOk);
      return;
    case mesh::PeerState::kLost:
      links_->end_st(peer.rank, Status(Code::kPeerLost,
                                       fmt::format("rank {} is lost: {}", peer.rank, peer.reason)));
      announce(EventKind::kPeerLost, Code::kPeerLost);
      return;
    case mesh::PeerState::kLeft:
      links_->end_st(peer.rank,
                     Status(Code::kCanceled, fmt::format("rank {} left the mesh", peer.rank)));
      announce(EventKind::kPeerLeft, Code::kOk);
      return;
  }
}

void MeshSession::on_mesh_lost(const Status& why) {
  lost_ = Status(Code::kPeerLost, fmt::format("the mesh is lost to this rank: {}", why.text()));
  links_->end_all_st(lost_);
  context_->events().push({EventKind::kMeshLost, config_.rank, why.code(), 0, why.text()});
}

PeerView MeshSession::peer_view_st(Rank rank) const {
  PeerView view;
  view.info = mesh_->peer(rank);
  view.info.address.clear();
  if (rank == config_.rank) return view;
  view.link_epoch = links_->link_st(rank).epoch_st();
  view.transport = links_->link_st(rank).describe_st();
  return view;
}

MeshView MeshSession::query() {
  MeshView view;
  // A link that no port has used is only a plan: it counts where there is no other.
  std::vector<std::string> used, planned;
  const auto note = [](std::vector<std::string>* list, const std::string& text) {
    if (!text.empty() && std::find(list->begin(), list->end(), text) == list->end())
      list->push_back(text);
  };
  context_->run([&] {
    view.membership_epoch = mesh_->membership_epoch();
    for (Rank rank = 0; rank < world(); ++rank) {
      const PeerView peer = peer_view_st(rank);
      const bool gone =
          peer.info.state == mesh::PeerState::kLost || peer.info.state == mesh::PeerState::kLeft;
      view.alive += gone ? 0 : 1;
      note(peer.link_epoch > 0 ? &used : &planned, peer.transport);
    }
  });
  view.transports = fmt::format("{}", fmt::join(used.empty() ? planned : used, ", "));
  return view;
}

Result<PeerView> MeshSession::query_peer(Rank rank) {
  if (rank >= world())
    return Status(Code::kInvalidArgument,
                  fmt::format("rank {} is not below the world size {}", rank, world()));
  PeerView view;
  context_->run([&] { view = peer_view_st(rank); });
  return view;
}

std::vector<PeerView> MeshSession::query_peers() {
  std::vector<PeerView> views;
  context_->run([&] {
    for (Rank rank = 0; rank < world(); ++rank) views.push_back(peer_view_st(rank));
  });
  return views;
}

void MeshSession::read_counters(std::vector<Counter>& out) const {
  context_->run([&] {
    out.push_back({"mesh.membership_epoch", mesh_->membership_epoch()});
    out.push_back({"mesh.messages_deferred", backlog_.deferred_st()});
    for (Rank rank = 0; rank < world(); ++rank) {
      if (rank == config_.rank) continue;
      const Link& link = links_->link_st(rank);
      out.push_back({fmt::format("link.{}.epoch", rank), link.epoch_st()});
      out.push_back({fmt::format("link.{}.opens", rank), link.counters_st().opens});
      out.push_back({fmt::format("link.{}.resets", rank), link.counters_st().resets});
      out.push_back({fmt::format("link.{}.probes", rank), link.counters_st().probes});
      out.push_back({fmt::format("link.{}.malformed", rank), link.counters_st().malformed});
    }
    if (engines_ == nullptr) return;
    out.push_back({"faults.injected", engines_->faults_st()});
    out.push_back({"paced.bytes_sent", engines_->paced_bytes_st()});
  });
}

}  // namespace asyncmesh::core
