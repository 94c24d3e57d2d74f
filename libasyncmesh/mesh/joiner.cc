#include "mesh/joiner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "mesh/progress_time.h"
#include "mesh/url.h"

namespace asyncmesh::mesh {

namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kHandshakeTimeout = 5'000 * kMillisecond;
constexpr Nanoseconds kFirstPause = 5 * kMillisecond;
constexpr Nanoseconds kLongestPause = 200 * kMillisecond;
constexpr Nanoseconds kRedial = 50 * kMillisecond;
constexpr Nanoseconds kLongestWait = 100 * kMillisecond;
constexpr Nanoseconds kOneDial = 3'000 * kMillisecond;  // until the next address gets its turn

}  // namespace

Joiner::Joiner(const MeshConfig& config, const Endpoints& endpoints, const Clock& clock,
               const Logger& logger)
    : config_(config), endpoints_(endpoints), clock_(clock), logger_(logger) {}

Result<JoinedMesh> Joiner::run(Identity self, const Digest& key, Nanoseconds deadline) {
  self_ = std::move(self);
  key_ = key;
  auto poller = Poller::create();
  if (!poller.ok()) return poller.status();
  poller_ = std::move(poller.value());
  auto pause_poller = Poller::create();
  if (!pause_poller.ok()) return pause_poller.status();

  for (Nanoseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    Status status = connect(deadline);
    if (status.ok()) status = attend(deadline);
    if (status.ok()) break;
    if (status.code() != Code::kAgain) return status;
    reset();
    if (clock_.now() + pause >= deadline) return timeout_text();
    pause_poller.value()->wait(pause);
  }
  JoinedMesh joined;
  ASYNCMESH_RETURN_IF_ERROR(collect(&joined));
  return joined;
}

void Joiner::reset() {
  links_.clear();
  rendezvous_.reset();
  if (listener_) poller_->forget(listener_.get());
  listener_.reset();
  members_.clear();
  peers_.clear();
  present_.reset();
  ready_told_ = false;
  closing_ = false;
}

// kAgain (and trouble_): worth another attempt.
Status Joiner::connect(Nanoseconds deadline) {
  ForkSafeFd fd;
  for (const SocketAddress& address : endpoints_.rendezvous) {
    auto dialed = dial_and_wait(address, clock_, std::min(deadline, clock_.now() + kOneDial));
    if (dialed.ok()) {
      fd = std::move(dialed.value());
      break;
    }
    trouble_ = fmt::format("{}: {}", host_and_port(address.host(), address.port()),
                           dialed.status().text());
  }
  if (!fd) return Status(Code::kAgain);
  const SocketAddress local = local_address(fd.get());
  ASYNCMESH_RETURN_IF_ERROR(open_listener(local));
  auto host = announced_host(config_, local);
  if (!host.ok()) return host.status();
  self_.announce_host = host.value();
  self_.port = local_address(listener_.get()).port();
  trouble_.clear();
  rendezvous_ = std::make_unique<ControlConnection>(
      std::move(fd), true, Handshake(Side::kDialer, Purpose::kRendezvous, key_, self_));
  return rendezvous_->attach(*poller_, kRendezvousToken);
}

Status Joiner::open_listener(const SocketAddress& local) {
  auto address = listener_address(config_, endpoints_, local);
  if (!address.ok()) return address.status();
  auto listener = listen_on(address.value());
  if (!listener.ok()) return {Code::kSystem, listener.status().text()};
  listener_ = std::move(listener.value());
  if (poller_->watch(listener_.get(), kListenerToken, true, false)) return {};
  return {Code::kSystem, "epoll: " + errno_text(errno)};
}

// Until the mesh has started (ok), must be tried again (kAgain), or cannot be joined.
Status Joiner::attend(Nanoseconds deadline) {
  std::vector<uint64_t> tokens;
  for (;;) {
    Nanoseconds now = clock_.now();
    if (now >= deadline) return timeout_text();
    dial_peers(now);
    tokens.clear();
    for (const epoll_event& event : poller_->wait(std::min(deadline - now, kLongestWait))) {
      tokens.push_back(event.data.u64);
    }
    now = clock_.now();
    const Status status = serve(tokens, now);
    if (!failure_.ok()) return failure_;
    if (epoch_ != 0) return {};
    if (!status.ok()) return status;
    drop_strangers(now);
    std::erase_if(links_, [](const auto& link) { return link->connection == nullptr; });
    report_ready();
  }
}

Status Joiner::serve(const std::vector<uint64_t>& tokens, Nanoseconds now) {
  Status rendezvous;
  for (const uint64_t token : tokens) {
    if (token == kListenerToken) {
      accept_waiting(now);
    } else if (token == kRendezvousToken) {
      rendezvous = rendezvous_->on_event(*this);
    } else {
      const auto link = std::find_if(links_.begin(), links_.end(), [token](const auto& candidate) {
        return candidate->connection && candidate->connection->token() == token;
      });
      if (link != links_.end()) serve_link(**link);
    }
  }
  // Links that were waiting for the list of members.
  for (const auto& link : links_) settle(*link);
  if (closing_ || rendezvous.code() == Code::kPeerLost || rendezvous.code() == Code::kSystem) {
    if (trouble_.empty()) trouble_ = rendezvous.text();
    return Status(Code::kAgain);
  }
  return rendezvous;
}

void Joiner::serve_link(Link& link) {
  const Status status = link.connection->on_event(*this);
  if (link.connection->established()) settle(link);
  if (status.ok() || !link.connection) return;
  if (!link.dialed && logger_.enabled(LogLevel::kWarning) && status.code() != Code::kPeerLost) {
    logger_.write(LogLevel::kWarning, fmt::format("control listener: {}: {}",
                                                  link.connection->describe(), status.text()));
  }
  end_link(link, status.text());
}

void Joiner::accept_waiting(Nanoseconds now) {
  for (size_t accepted = 0; accepted < kMaxPending; ++accepted) {
    ForkSafeFd fd = accept_from(listener_.get());
    if (!fd) return;
    static_cast<void>(add_link(std::move(fd), true, std::nullopt, now));
  }
}

Status Joiner::add_link(ForkSafeFd fd, bool connected, std::optional<Rank> dialed,
                        Nanoseconds now) {
  auto link = std::make_unique<Link>();
  link->dialed = dialed;
  link->since = now;
  link->connection = std::make_unique<ControlConnection>(
      std::move(fd), connected,
      Handshake(dialed ? Side::kDialer : Side::kAcceptor, Purpose::kPeer, key_, self_));
  ASYNCMESH_RETURN_IF_ERROR(link->connection->attach(*poller_, next_token_++));
  links_.push_back(std::move(link));
  return {};
}

void Joiner::drop_strangers(Nanoseconds now) {
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
    end_link(*link, "no handshake in time");
  }
}

void Joiner::dial_peers(Nanoseconds now) {
  for (Rank rank = 0; rank < std::min<size_t>(self_.rank, peers_.size()); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.token != 0 || now < peer.next_dial) continue;
    peer.next_dial = kNever;  // until this attempt ends
    const Identity& member = members_[rank];
    auto address = parse_address(member.announce_host, member.port);
    Status status = address.status();
    if (status.ok()) {
      auto fd = dial(address.value());
      status = fd.ok() ? add_link(std::move(fd.value()), false, rank, now) : fd.status();
    }
    if (status.ok()) continue;
    peer.trouble = status.text();
    peer.next_dial = now + kRedial;
  }
}

void Joiner::end_link(Link& link, const std::string& why) {
  if (!link.connection) return;
  const uint64_t token = link.connection->token();
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.token != token && link.dialed != rank) continue;
    peer.trouble = why;
    peer.next_dial = clock_.now() + kRedial;
    if (peer.token != token) continue;
    peer.token = 0;
    peer.has_address = false;
    peer.early = std::move(link.frames);
  }
  link.connection.reset();
}

// Whoever is authenticated knows the secret; it must also be the process that was published.
Status Joiner::verify(const Link& link) const {
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

void Joiner::settle(Link& link) {
  if (!link.connection || members_.empty() || !link.connection->established()) return;
  ControlConnection& connection = *link.connection;
  if (const Status status = verify(link); !status.ok()) {
    if (logger_.enabled(LogLevel::kWarning)) {
      logger_.write(LogLevel::kWarning, "control listener: " + status.text());
    }
    connection.send(Space::kMesh, static_cast<uint16_t>(MeshMessage::kRefused),
                    encode_refusal(status));
    end_link(link, status.text());
    return;
  }
  const Rank rank = connection.peer().rank;
  Peer& peer = peers_[rank];
  if (peer.token == 0) {
    peer.token = connection.token();
    connection.send(Space::kMesh, static_cast<uint16_t>(MeshMessage::kAddress), config_.address);
  }
  if (peer.has_address || link.frames.empty()) return;
  const HeldFrame& first = link.frames.front();
  Digest digest;
  if (first.space != Space::kMesh || first.type != static_cast<uint16_t>(MeshMessage::kAddress) ||
      !sha256({first.body}, &digest) ||
      !equal_in_constant_time(digest, members_[rank].address_digest)) {
    end_link(link, "it did not send the transport address that it had announced");
    return;
  }
  addresses_[rank] = std::move(link.frames.front().body);
  link.frames.erase(link.frames.begin());
  peer.has_address = true;
}

void Joiner::report_ready() {
  if (ready_told_ || members_.empty()) return;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (rank != self_.rank && (peers_[rank].token == 0 || !peers_[rank].has_address)) return;
  }
  ready_told_ = true;
  rendezvous_->send(Space::kMesh, static_cast<uint16_t>(MeshMessage::kReady), {});
}

void Joiner::on_frame(ControlConnection& from, const ControlFrame& frame) {
  if (&from == rendezvous_.get()) {
    on_rendezvous_frame(frame);
    return;
  }
  for (const auto& link : links_) {
    if (link->connection.get() != &from) continue;
    link->frames.push_back(
        {from.peer().rank, frame.space, frame.type, {frame.body.begin(), frame.body.end()}});
  }
}

void Joiner::on_rendezvous_frame(const ControlFrame& frame) {
  if (frame.space != Space::kMesh || !failure_.ok()) return;
  const auto type = static_cast<MeshMessage>(frame.type);
  if (epoch_ != 0) {
    rendezvous_frames_.push_back(
        {kRendezvousRank, frame.space, frame.type, {frame.body.begin(), frame.body.end()}});
  } else if (type == MeshMessage::kRefused) {
    const Status why = decode_refusal(frame.body);
    trouble_ = why.text();
    if (why.code() != Code::kAgain) failure_ = why;
  } else if (type == MeshMessage::kClosing) {
    closing_ = true;
    trouble_ = "the rendezvous closed before everybody was there";
  } else if (type == MeshMessage::kPresent) {
    std::vector<Rank> ranks;
    if (decode_ranks(frame.body, &ranks)) present_ = std::move(ranks);
  } else if (type == MeshMessage::kMembers) {
    std::vector<Identity> members;
    if (!decode_members(frame.body, &members) || members.size() != self_.world()) return;
    for (Rank rank = 0; rank < members.size(); ++rank) {
      if (members[rank].rank != rank) return;
    }
    members_ = std::move(members);
    peers_ = std::vector<Peer>(members_.size());
    addresses_.assign(members_.size(), {});
  } else if (type == MeshMessage::kStart) {
    MembershipMessage message;
    if (decode(frame.body, &message) && ready_told_) epoch_ = message.epoch;
  }
}

Status Joiner::timeout_text() const {
  const std::string place = host_and_port(endpoints_.url.host, endpoints_.url.port);
  if (!rendezvous_ || !rendezvous_->established()) {
    return {Code::kTimeout,
            fmt::format("rank {} could not join by the rendezvous at {}: {}", self_.rank, place,
                        trouble_.empty() ? "no answer" : trouble_)};
  }
  if (members_.empty()) {
    std::vector<Rank> missing;
    for (Rank rank = 0; rank < self_.world(); ++rank) {
      const bool here =
          rank == self_.rank ||
          (present_ && std::find(present_->begin(), present_->end(), rank) != present_->end());
      if (!here) missing.push_back(rank);
    }
    return {Code::kTimeout,
            fmt::format("rank {} is at the rendezvous at {}; missing of {} ranks: {}", self_.rank,
                        place, self_.world(), list_ranks(missing))};
  }
  std::string text;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (rank == self_.rank || (peer.token != 0 && peer.has_address)) continue;
    fmt::format_to(std::back_inserter(text), "; {} at {}: {}", describe(members_[rank]),
                   host_and_port(members_[rank].announce_host, members_[rank].port),
                   peer.trouble.empty() ? "no connection" : peer.trouble);
  }
  if (text.empty()) text = "; waiting for other ranks to reach each other";
  return {Code::kTimeout, fmt::format("rank {} is not connected to all peers{}", self_.rank, text)};
}

Status Joiner::collect(JoinedMesh* joined_out) {
  JoinedMesh& joined = *joined_out;
  auto poller = Poller::create();
  if (!poller.ok()) return poller.status();
  joined.poller = std::move(poller.value());
  joined.peers.resize(members_.size());
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    std::vector<HeldFrame>* frames = &peers_[rank].early;
    for (const auto& link : links_) {
      if (!link->connection || link->connection->token() != peers_[rank].token) continue;
      frames = &link->frames;
      ASYNCMESH_RETURN_IF_ERROR(link->connection->move_to(*joined.poller, rank));
      joined.peers[rank] = std::move(link->connection);
    }
    std::move(frames->begin(), frames->end(), std::back_inserter(joined.held));
  }
  ASYNCMESH_RETURN_IF_ERROR(rendezvous_->move_to(*joined.poller, kRendezvousRank));
  joined.rendezvous = std::move(rendezvous_);
  std::move(rendezvous_frames_.begin(), rendezvous_frames_.end(), std::back_inserter(joined.held));
  addresses_[self_.rank] = config_.address;
  joined.addresses = std::move(addresses_);
  joined.members = std::move(members_);
  joined.epoch = epoch_;
  return {};
}

}  // namespace asyncmesh::mesh
