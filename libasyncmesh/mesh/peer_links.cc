#include "mesh/peer_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "mesh/messages.h"
#include "mesh/url.h"

namespace asyncmesh::mesh {

namespace {

constexpr Nanoseconds kRedial = 50'000'000;
constexpr uint32_t kMaxWarnings = 20;  // strangers cause them; they must not fill a log

}  // namespace

PeerLinks::PeerLinks(Poller& poller, const Digest& key, const Logger& logger)
    : poller_(poller), key_(key), logger_(logger) {}

void PeerLinks::reset() {
  links_.clear();
  if (listener_) poller_.forget(listener_.get());
  listener_.reset();
  members_.clear();
  peers_.clear();
  addresses_.clear();
}

Status PeerLinks::listen(const SocketAddress& address, Identity* self_in_out) {
  auto listener = listen_on(address);
  if (!listener.ok()) return {Code::kSystem, listener.status().text()};
  listener_ = std::move(listener.value());
  self_in_out->port = local_address(listener_.get()).port();
  if (poller_.watch(listener_.get(), kListenerToken, true, false)) return {};
  return {Code::kSystem, "epoll: " + errno_text(errno)};
}

void PeerLinks::identify(Identity self, std::vector<std::byte> address) {
  self_ = std::move(self);
  address_ = std::move(address);
}

void PeerLinks::publish(std::vector<Identity> members) {
  members_ = std::move(members);
  peers_ = std::vector<Peer>(members_.size());
  addresses_.assign(members_.size(), {});
}

void PeerLinks::warn(const std::string& text) {
  if (++warnings_ <= kMaxWarnings) logger_.write(LogLevel::kWarning, "control listener: " + text);
}

void PeerLinks::on_event(uint64_t token, Nanoseconds now) {
  now_ = now;
  if (token == kListenerToken) {
    accept_waiting(now);
    return;
  }
  const auto found = std::find_if(links_.begin(), links_.end(), [token](const auto& candidate) {
    return candidate->connection && candidate->connection->token() == token;
  });
  if (found == links_.end()) return;
  Link& link = **found;
  const Status status = link.connection->on_event(*this);
  settle(link);  // what came before the end counts
  if (status.ok() || !link.connection) return;
  if (!link.dialed && status.code() != Code::kPeerLost) {
    warn(fmt::format("{}: {}", link.connection->describe(), status.text()));
  }
  end(link, status.text());
}

void PeerLinks::advance(Nanoseconds now) {
  now_ = now;
  for (const auto& link : links_) settle(*link);  // some were waiting for the list of members
  drop_strangers(now);
  std::erase_if(links_, [](const auto& link) { return link->connection == nullptr; });
  dial_peers(now);
}

void PeerLinks::accept_waiting(Nanoseconds now) {
  for (size_t accepted = 0; accepted < kMaxPending; ++accepted) {
    ForkSafeFd fd = accept_from(listener_.get());
    if (!fd) return;
    static_cast<void>(add(std::move(fd), true, std::nullopt, now));
  }
}

Status PeerLinks::add(ForkSafeFd fd, bool connected, std::optional<Rank> dialed, Nanoseconds now) {
  auto link = std::make_unique<Link>();
  link->dialed = dialed;
  link->since = now;
  link->connection = std::make_unique<ControlConnection>(
      std::move(fd), connected,
      Handshake(dialed ? Side::kDialer : Side::kAcceptor, Purpose::kPeer, key_, self_));
  ASYNCMESH_RETURN_IF_ERROR(link->connection->attach(poller_, next_token_++));
  links_.push_back(std::move(link));
  return {};
}

void PeerLinks::drop_strangers(Nanoseconds now) {
  size_t strangers = 0;
  for (const auto& link : links_) {
    if (link->connection && !link->dialed && !link->connection->established()) ++strangers;
  }
  for (const auto& link : links_) {
    if (!link->connection || link->connection->established()) continue;
    const bool overdue = now - link->since > kHandshakeTimeout;
    const bool surplus = !link->dialed && strangers > kMaxPending;
    if (!overdue && !surplus) continue;
    if (!link->dialed) --strangers;
    end(*link, "no handshake in time");
  }
}

void PeerLinks::dial_peers(Nanoseconds now) {
  for (Rank rank = 0; rank < std::min<size_t>(self_.rank, peers_.size()); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.token != 0 || now < peer.next_dial) continue;
    peer.next_dial = kNever;  // until this attempt ends
    const Identity& member = members_[rank];
    auto address = parse_address(member.announce_host, member.port);
    Status status = address.status();
    if (status.ok()) {
      auto fd = dial(address.value());
      status = fd.ok() ? add(std::move(fd.value()), false, rank, now) : fd.status();
    }
    if (status.ok()) continue;
    peer.trouble = status.text();
    peer.next_dial = now + kRedial;
  }
}

void PeerLinks::end(Link& link, const std::string& why) {
  if (!link.connection) return;
  const uint64_t token = link.connection->token();
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.token != token && link.dialed != rank) continue;
    peer.trouble = why;
    peer.next_dial = now_ + kRedial;
    if (peer.token != token) continue;
    peer.token = 0;
    peer.has_address = false;
    peer.early = std::move(link.frames);
    break;
  }
  link.connection.reset();
}

// Whoever is authenticated knows the secret; it must also be the process that was published.
Status PeerLinks::verify(const Link& link) const {
  const Identity& peer = link.connection->peer();
  if (peer.rank >= members_.size()) return {Code::kMismatch, "it is no member"};
  const Identity& member = members_[peer.rank];
  if (peer.incarnation != member.incarnation || peer.run_id != member.run_id) {
    return {Code::kMismatch, fmt::format("{} is not the process that joined", describe(peer))};
  }
  if (link.dialed ? peer.rank != *link.dialed : peer.rank <= self_.rank) {
    return {Code::kMismatch,
            fmt::format("{} answers in the place of another rank", describe(peer))};
  }
  if (peers_[peer.rank].token != 0 && peers_[peer.rank].token != link.connection->token()) {
    return {Code::kMismatch, fmt::format("{} is connected already", describe(peer))};
  }
  return {};
}

void PeerLinks::settle(Link& link) {
  if (!link.connection || members_.empty() || !link.connection->authenticated()) return;
  ControlConnection& connection = *link.connection;
  if (const Status status = verify(link); !status.ok()) {
    warn(status.text());
    connection.send(Space::kMesh, static_cast<uint16_t>(MeshMessage::kRefused),
                    encode_refusal(status));
    end(link, status.text());
    return;
  }
  const Rank rank = connection.peer().rank;
  Peer& peer = peers_[rank];
  if (peer.token == 0) {
    peer.token = connection.token();
    connection.send(Space::kMesh, static_cast<uint16_t>(MeshMessage::kAddress), address_);
  }
  if (!peer.has_address && !link.frames.empty()) take_address(link, rank);
}

void PeerLinks::take_address(Link& link, Rank rank) {
  HeldFrame& first = link.frames.front();
  const auto type =
      first.space == Space::kMesh ? static_cast<MeshMessage>(first.type) : MeshMessage();
  Digest digest;
  if (type == MeshMessage::kRefused) {
    end(link, decode_refusal(first.body).text());
  } else if (type != MeshMessage::kAddress || !sha256({first.body}, &digest) ||
             !equal_in_constant_time(digest, members_[rank].address_digest)) {
    end(link, "it did not send the transport address that it had announced");
  } else {
    addresses_[rank] = std::move(first.body);
    link.frames.erase(link.frames.begin());
    peers_[rank].has_address = true;
  }
}

void PeerLinks::on_frame(ControlConnection& from, const ControlFrame& frame) {
  for (const auto& link : links_) {
    if (link->connection.get() != &from) continue;
    link->frames.push_back(
        {from.peer().rank, frame.space, frame.type, {frame.body.begin(), frame.body.end()}});
    return;
  }
}

bool PeerLinks::complete() const {
  if (!published()) return false;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (rank != self_.rank && (peers_[rank].token == 0 || !peers_[rank].has_address)) return false;
  }
  return true;
}

std::string PeerLinks::missing() const {
  std::string text;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (rank == self_.rank || (peer.token != 0 && peer.has_address)) continue;
    fmt::format_to(std::back_inserter(text), "{}{} at {}: {}", text.empty() ? "" : "; ",
                   describe(members_[rank]),
                   host_and_port(members_[rank].announce_host, members_[rank].port),
                   peer.trouble.empty() ? "no connection" : peer.trouble);
  }
  return text;
}

Status PeerLinks::hand_over(JoinedMesh* joined) {
  joined->peers.resize(members_.size());
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    std::vector<HeldFrame>* frames = &peers_[rank].early;
    for (const auto& link : links_) {
      if (!link->connection || link->connection->token() != peers_[rank].token) continue;
      frames = &link->frames;
      ASYNCMESH_RETURN_IF_ERROR(link->connection->move_to(*joined->poller, rank));
      joined->peers[rank] = std::move(link->connection);
    }
    std::move(frames->begin(), frames->end(), std::back_inserter(joined->held));
  }
  addresses_[self_.rank] = address_;
  joined->addresses = std::move(addresses_);
  joined->members = std::move(members_);
  reset();
  return {};
}

}  // namespace asyncmesh::mesh
