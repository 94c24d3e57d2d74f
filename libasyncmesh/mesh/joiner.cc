#include "mesh/joiner.h"

#include <fmt/format.h>

#include <algorithm>

#include "mesh/messages.h"
#include "mesh/url.h"

namespace asyncmesh::mesh {

namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kFirstPause = 5 * kMillisecond;
constexpr Nanoseconds kLongestPause = 200 * kMillisecond;
constexpr Nanoseconds kLongestWait = 50 * kMillisecond;
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
  links_ = std::make_unique<PeerLinks>(*poller_, key_, logger_);

  for (Nanoseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    Status status = connect(deadline);
    if (status.ok()) status = attend(deadline);
    if (status.ok()) break;
    if (status.code() != Code::kAgain) return status;
    reset();
    if (clock_.now() + pause >= deadline) return timeout();
    poller_->wait(pause);  // it watches nothing now
  }
  JoinedMesh joined;
  ASYNCMESH_RETURN_IF_ERROR(collect(&joined));
  return joined;
}

void Joiner::reset() {
  if (rendezvous_ && rendezvous_->authenticated()) last_seen_ = progress_text();
  links_->reset();
  rendezvous_.reset();
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
  trouble_.clear();
  const SocketAddress local = local_address(fd.get());
  auto address = listener_address(config_, endpoints_, local);
  if (!address.ok()) return address.status();
  ASYNCMESH_RETURN_IF_ERROR(links_->listen(address.value(), &self_));
  auto host = announced_host(config_, local);
  if (!host.ok()) return host.status();
  self_.announce_host = host.value();
  links_->identify(self_, config_.address);
  rendezvous_ = std::make_unique<ControlConnection>(
      std::move(fd), true, Handshake(Side::kDialer, Purpose::kRendezvous, key_, self_));
  return rendezvous_->attach(*poller_, kRendezvousToken);
}

// Until the mesh has started (ok), must be tried again (kAgain), or cannot be joined.
Status Joiner::attend(Nanoseconds deadline) {
  std::vector<uint64_t> tokens;
  for (;;) {
    Nanoseconds now = clock_.now();
    if (now >= deadline) return timeout();
    tokens.clear();
    for (const epoll_event& event : poller_->wait(std::min(deadline - now, kLongestWait))) {
      tokens.push_back(event.data.u64);
    }
    now = clock_.now();
    Status status = serve(tokens, now);
    if (!failure_.ok()) return failure_;
    if (epoch_ != 0) return {};
    if (!status.ok()) return status;
    links_->advance(now);
    if (ready_told_ || !links_->complete()) continue;
    ready_told_ = true;
    rendezvous_->send(Space::kMesh, static_cast<uint16_t>(MeshMessage::kReady), {});
  }
}

Status Joiner::serve(const std::vector<uint64_t>& tokens, Nanoseconds now) {
  Status status;
  for (const uint64_t token : tokens) {
    if (token == kRendezvousToken) {
      status = rendezvous_->on_event(*this);
    } else {
      links_->on_event(token, now);
    }
  }
  if (closing_ || status.code() == Code::kPeerLost || status.code() == Code::kSystem) {
    if (trouble_.empty()) trouble_ = status.text();
    return Status(Code::kAgain);
  }
  return status;
}

void Joiner::on_frame(ControlConnection& from, const ControlFrame& frame) {
  static_cast<void>(from);
  if (frame.space != Space::kMesh || !failure_.ok()) return;
  const auto type = static_cast<MeshMessage>(frame.type);
  if (epoch_ != 0) {
    held_.push_back(
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
    links_->publish(std::move(members));
  } else if (type == MeshMessage::kStart) {
    MembershipMessage message;
    if (decode(frame.body, &message) && ready_told_) epoch_ = message.epoch;
  }
}

std::string Joiner::progress_text() const {
  if (links_->published()) {
    const std::string missing = links_->missing();
    return missing.empty() ? "waiting for other ranks to reach each other"
                           : fmt::format("not connected to all peers: {}", missing);
  }
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < self_.world(); ++rank) {
    const bool here =
        rank == self_.rank ||
        (present_ && std::find(present_->begin(), present_->end(), rank) != present_->end());
    if (!here) missing.push_back(rank);
  }
  return fmt::format("missing of {} ranks: {}", self_.world(), list_ranks(missing));
}

Status Joiner::timeout() const {
  const std::string place = host_and_port(endpoints_.url.host, endpoints_.url.port);
  if (rendezvous_ && rendezvous_->established()) {
    return {Code::kTimeout, fmt::format("rank {} is at the rendezvous at {}; {}", self_.rank, place,
                                        progress_text())};
  }
  std::string text = fmt::format("rank {} could not join by the rendezvous at {}: {}", self_.rank,
                                 place, trouble_.empty() ? "no answer" : trouble_);
  if (!last_seen_.empty()) text += fmt::format("; before that: {}", last_seen_);
  return {Code::kTimeout, std::move(text)};
}

Status Joiner::collect(JoinedMesh* joined) {
  auto poller = Poller::create();
  if (!poller.ok()) return poller.status();
  joined->poller = std::move(poller.value());
  ASYNCMESH_RETURN_IF_ERROR(links_->hand_over(joined));
  ASYNCMESH_RETURN_IF_ERROR(rendezvous_->move_to(*joined->poller, kRendezvousRank));
  joined->rendezvous = std::move(rendezvous_);
  std::move(held_.begin(), held_.end(), std::back_inserter(joined->held));
  joined->epoch = epoch_;
  return {};
}

}  // namespace asyncmesh::mesh
