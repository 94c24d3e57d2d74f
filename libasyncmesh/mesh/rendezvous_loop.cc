#include "mesh/rendezvous_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "mesh/text.h"
#include "mesh/url.h"

namespace asyncmesh::mesh {

namespace {

constexpr size_t kMaxJobs = 64;
constexpr Nanoseconds kLinger = 250'000'000;
constexpr uint32_t kLogLinesPerSecond = 20;

}  // namespace

RendezvousServer::Loop::Loop(const RendezvousConfig& config, const Logger& logger)
    : config_(config), logger_(logger) {
  fill_in_process(self_);
  self_.rank = kRendezvousRank;
}

Result<std::unique_ptr<RendezvousServer::Loop>> RendezvousServer::Loop::create(
    const RendezvousConfig& config, const Logger& logger, int stop_fd) {
  std::unique_ptr<Loop> loop(new Loop(config, logger));
  if (!key_from_secret(config.secret, &loop->key_))
    return Status(Code::kInternal, "SHA-256 failed");
  Status why(Code::kInvalidArgument, "the rendezvous was given no address");
  for (const SocketAddress& address : config.addresses) {
    auto listener = listen_on(address);
    why = listener.status();
    if (!why.ok()) continue;
    loop->listener_ = std::move(listener.value());
    break;
  }
  ASYNCMESH_RETURN_IF_ERROR(std::move(why).annotate("rendezvous"));
  auto poller = Poller::create();
  if (!poller.ok()) return poller.status();
  loop->poller_ = std::move(poller.value());
  loop->stop_fd_ = stop_fd;
  if (!loop->poller_->watch(loop->listener_.get(), kListenerToken, true, false) ||
      !loop->poller_->watch(stop_fd, kStopToken, true, false)) {
    return Status(Code::kSystem, "epoll: " + errno_text(errno));
  }
  return loop;
}

void RendezvousServer::Loop::log(LogLevel level, const std::string& text) {
  const Nanoseconds now = clock_.now();
  if (now - log_window_ > 1'000'000'000) {
    log_window_ = now;
    logged_ = 0;
  }
  // Strangers can cause lines; they must not be able to fill a disk.
  if (++logged_ <= kLogLinesPerSecond) logger_.write(level, "rendezvous: " + text);
}

Nanoseconds RendezvousServer::Loop::tick() const {
  Nanoseconds shortest = 500'000'000;
  for (const auto& [run_id, job] : jobs_)
    shortest = std::min(shortest, job.roster->timers().tick / 2);
  return std::max<Nanoseconds>(shortest, 1'000'000);
}

void RendezvousServer::Loop::run() {
  try {
    while (step(tick())) {
    }
    hang_up();
  } catch (const std::exception& error) {  // no memory: the members go on without a rendezvous
    log(LogLevel::kError, fmt::format("ends: {}", error.what()));
  }
  clients_.clear();
  listener_.reset();
}

bool RendezvousServer::Loop::step(Nanoseconds timeout) {
  ready_.clear();
  bool stop = false;
  bool accept = false;
  for (const epoll_event& event : poller_->wait(timeout)) {
    if (event.data.u64 == kStopToken) {
      stop = true;
    } else if (event.data.u64 == kListenerToken) {
      accept = true;
    } else {
      ready_.push_back(event.data.u64);
    }
  }
  const Nanoseconds now = clock_.now();
  // Known clients first: who has gone makes room for who comes back.
  for (const uint64_t token : ready_) serve(token, now);
  if (accept) accept_waiting(now);
  if (pending_ > 0) drop_strangers(now);
  judge(now);
  if (deaf_until_ != 0 && now >= deaf_until_) {
    deaf_until_ = 0;
    poller_->change(listener_.get(), kListenerToken, true, false);
  }
  return !stop;
}

void RendezvousServer::Loop::accept_waiting(Nanoseconds now) {
  for (size_t accepted = 0; accepted < kMaxPending; ++accepted) {
    ForkSafeFd fd = accept_from(listener_.get());
    if (!fd) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
      log(LogLevel::kError, "cannot accept: " + errno_text(errno));
      deaf_until_ = now + 100'000'000;  // a listener that stays readable would make this loop spin
      poller_->change(listener_.get(), kListenerToken, false, false);
      return;
    }
    const uint64_t token = next_token_++;
    Client client;
    client.since = now;
    client.connection = std::make_unique<ControlConnection>(
        std::move(fd), true, Handshake(Side::kAcceptor, Purpose::kRendezvous, key_, self_));
    if (!client.connection->attach(*poller_, token).ok()) continue;
    clients_.emplace(token, std::move(client));
    ++pending_;
  }
}

void RendezvousServer::Loop::drop_strangers(Nanoseconds now) {
  ready_.clear();
  size_t surplus = pending_ > kMaxPending ? pending_ - kMaxPending : 0;
  for (const auto& [token, client] : clients_) {
    if (client.admitted) continue;
    if (surplus == 0 && now - client.since < config_.handshake_timeout)
      break;  // the rest is younger
    if (surplus > 0) --surplus;
    ready_.push_back(token);
  }
  for (const uint64_t token : ready_)
    close(token, Status(Code::kTimeout, "it did not authenticate"));
}

void RendezvousServer::Loop::serve(uint64_t token, Nanoseconds now) {
  const auto found = clients_.find(token);
  if (found == clients_.end()) return;
  Client& client = found->second;
  const Status status = client.connection->on_event(*this);
  // What came before the end counts: a member may say that it leaves, and hang up.
  if (client.connection->established() && !client.admitted) {
    const Status admitted = admit(*client.connection, now);
    if (!admitted.ok()) {
      client.connection->send(Space::kMesh, static_cast<uint16_t>(MeshMessage::kRefused),
                              encode_refusal(admitted));
      close(token, admitted);
      return;
    }
    client.admitted = true;
    --pending_;
  }
  if (!status.ok()) {
    close(token, status);
  } else if (Job* const job = job_of(*client.connection);
             job != nullptr && client.connection->received()) {
    job->roster->on_heard(client.connection->peer().rank);
  }
}

Result<RendezvousServer::Loop::Job*> RendezvousServer::Loop::job_for(const Identity& identity,
                                                                     Nanoseconds now) {
  const Identity& reference = config_.reference ? *config_.reference : identity;
  const auto found = jobs_.find(reference.run_id);
  if (found != jobs_.end()) return &found->second;
  if (jobs_.size() >= kMaxJobs) return Status(Code::kAgain, "the rendezvous serves too many jobs");
  const uint64_t world = uint64_t{reference.replicas} * reference.stages;
  if (world == 0 || world > kMaxWorld || reference.peer_timeout <= 0) {
    return Status(Code::kMismatch, fmt::format("{} states no possible mesh", describe(identity)));
  }
  Job job;
  job.roster = std::make_unique<Roster>(reference, config_.host, now);
  job.tokens.resize(world, 0);
  return &jobs_.emplace(reference.run_id, std::move(job)).first->second;
}

Status RendezvousServer::Loop::admit(ControlConnection& connection, Nanoseconds now) {
  Arrival arrival;
  arrival.identity = connection.peer();
  arrival.remote_host = connection.remote().host();
  arrival.local_host = connection.local().host();
  arrival.from_loopback = connection.remote().same_host(connection.local());
  auto announced = parse_address(arrival.identity.announce_host, arrival.identity.port);
  if (!announced.ok()) return announced.status();
  arrival.announces_loopback = announced.value().is_loopback();
  auto job = job_for(arrival.identity, now);
  if (!job.ok()) return job.status();
  ASYNCMESH_RETURN_IF_ERROR(job.value()->roster->admit(arrival));
  job.value()->tokens[arrival.identity.rank] = connection.token();
  if (logger_.enabled(LogLevel::kDebug)) {
    log(LogLevel::kDebug,
        fmt::format("{} is here, from {}", describe(arrival.identity),
                    host_and_port(arrival.remote_host, connection.remote().port())));
  }
  return {};
}

RendezvousServer::Loop::Job* RendezvousServer::Loop::job_of(const ControlConnection& connection) {
  if (!connection.established()) return nullptr;
  const auto found = jobs_.find(connection.peer().run_id);
  if (found == jobs_.end()) return nullptr;
  const Rank rank = connection.peer().rank;
  const std::vector<uint64_t>& tokens = found->second.tokens;
  return rank < tokens.size() && tokens[rank] == connection.token() ? &found->second : nullptr;
}

void RendezvousServer::Loop::on_frame(ControlConnection& from, const ControlFrame& frame) {
  Job* const job = job_of(from);
  if (job == nullptr || frame.space != Space::kMesh) return;
  job->roster->on_message(from.peer().rank, static_cast<MeshMessage>(frame.type), frame.body);
}

void RendezvousServer::Loop::judge(Nanoseconds now) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    job->second.roster->judge(now);
    deliver(job->second);
    // Connections of a job that is over end by themselves, when their members hang up.
    job = job->second.roster->empty() ? jobs_.erase(job) : std::next(job);
  }
}

void RendezvousServer::Loop::deliver(Job& job) {
  for (const Roster::Outgoing& outgoing : job.roster->take_outgoing()) {
    const auto found = clients_.find(job.tokens[outgoing.to]);
    if (found == clients_.end()) continue;
    ControlConnection& connection = *found->second.connection;
    // A stopped member must not collect signs of life.
    if (outgoing.type == MeshMessage::kHeartbeat && connection.has_queued()) continue;
    if (outgoing.type == MeshMessage::kRemoved) {
      MembershipMessage message;
      if (decode(outgoing.body, &message) && message.rank == outgoing.to) {
        log(LogLevel::kWarning,
            fmt::format("removed {}: {}", connection.describe(), message.reason));
      }
    }
    connection.send(Space::kMesh, static_cast<uint16_t>(outgoing.type), outgoing.body);
  }
  for (Rank rank = 0; rank < job.tokens.size(); ++rank) {
    if (job.tokens[rank] == 0 || job.roster->keeps(rank)) continue;
    close(job.tokens[rank], Status());
  }
}

// An ok status: on our own account, already logged.
void RendezvousServer::Loop::close(uint64_t token, const Status& why) {
  const auto found = clients_.find(token);
  if (found == clients_.end()) return;
  const ControlConnection& connection = *found->second.connection;
  if (found->second.admitted) {
    const auto job = jobs_.find(connection.peer().run_id);
    const Rank rank = connection.peer().rank;
    if (job != jobs_.end() && rank < job->second.tokens.size() &&
        job->second.tokens[rank] == token) {
      job->second.tokens[rank] = 0;
      job->second.roster->on_closed(rank, why.text());
    }
  } else {
    --pending_;
    const bool quiet = why.code() == Code::kPeerLost || why.code() == Code::kAgain;
    log(quiet ? LogLevel::kDebug : LogLevel::kWarning,
        fmt::format("refused {} at {}: {}", connection.describe(),
                    host_and_port(connection.remote().host(), connection.remote().port()),
                    why.text()));
  }
  clients_.erase(found);
}

void RendezvousServer::Loop::hang_up() {
  poller_->forget(stop_fd_);  // it stays readable
  poller_->forget(listener_.get());
  listener_.reset();
  for (const auto& [token, client] : clients_) {
    client.connection->send(Space::kMesh, static_cast<uint16_t>(MeshMessage::kClosing), {});
  }
  const bool in_good_order = std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
    return job.second.roster->host_has_left();
  });
  // A socket that is closed with unread input discards what the peer has not received yet.
  const Nanoseconds deadline = clock_.now() + (in_good_order ? kLinger : 0);
  for (Nanoseconds now = clock_.now(); !clients_.empty() && now < deadline; now = clock_.now()) {
    ready_.clear();
    for (const epoll_event& event : poller_->wait(deadline - now)) ready_.push_back(event.data.u64);
    for (const uint64_t token : ready_) {
      const auto found = clients_.find(token);
      if (found != clients_.end() && !found->second.connection->on_event(*this).ok()) {
        clients_.erase(found);
      }
    }
  }
}

}  // namespace asyncmesh::mesh
