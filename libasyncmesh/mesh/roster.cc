#include "mesh/roster.h"

#include <fmt/format.h>

#include <algorithm>

#include "mesh/control_frame.h"
#include "mesh/handshake.h"

namespace asyncmesh::mesh {

namespace {

// Every arrival concerns everybody who is here: bundled, the messages stay linear in their number.
constexpr Nanoseconds kPresenceInterval = 50'000'000;

}  // namespace

Roster::Roster(const Identity& reference, std::optional<Rank> host, Nanoseconds now)
    : reference_(reference),
      host_(host),
      timers_(reference.peer_timeout),
      time_(now, timers_.heartbeat),
      members_(reference.world()),
      next_heartbeat_(now),
      next_presence_(now) {}

void Roster::send(Rank to, MeshMessage type, MessageBody body) {
  outgoing_.push_back({to, type, std::move(body)});
}

// The host last: what it does at the news may end this process before the others have heard it, and
// then they would name the host as the one that was lost.
void Roster::broadcast(MeshMessage type, const MessageBody& body) {
  for (const bool host : {false, true}) {
    for (const Rank rank : live()) {
      if ((host_ == rank) == host) send(rank, type, body);
    }
  }
}

std::vector<Rank> Roster::live() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < members_.size(); ++rank) {
    if (is_live(members_[rank].state)) ranks.push_back(rank);
  }
  return ranks;
}

uint32_t Roster::count(State state) const {
  return static_cast<uint32_t>(
      std::count_if(members_.begin(), members_.end(),
                    [state](const Member& member) { return member.state == state; }));
}

bool Roster::empty() const { return live().empty() && count(State::kAbandoning) == 0; }

Status Roster::admit(const Arrival& arrival) {
  const Identity& other = arrival.identity;
  if (other.run_id != reference_.run_id) {
    // The run before this one may still be ending here, or the next one be early.
    return {Code::kAgain,
            fmt::format("a mesh with run id \"{}\" is served here", reference_.run_id)};
  }
  if (const std::string text = difference(reference_, other); !text.empty()) {
    return {Code::kMismatch, fmt::format("{} does not fit this mesh: {}", describe(other), text)};
  }
  if (other.rank >= members_.size() || other.replica >= reference_.replicas ||
      other.stage >= reference_.stages) {
    return {Code::kMismatch, fmt::format("{} lies outside this mesh", describe(other))};
  }
  Member& member = members_[other.rank];
  if (is_live(member.state)) {
    return {Code::kMismatch, fmt::format("rank {} is taken: it is {}", other.rank,
                                         describe(member.arrival.identity))};
  }
  if (phase_ != Phase::kGathering) {
    return {Code::kAgain,
            fmt::format("a mesh with run id \"{}\" is running here already", other.run_id)};
  }
  for (const Rank rank : live()) {
    const Identity& here = members_[rank].arrival.identity;
    if (here.replica == other.replica && here.stage == other.stage) {
      return {Code::kMismatch, fmt::format("replica {}, stage {} is taken by {}", other.replica,
                                           other.stage, describe(here))};
    }
  }
  if (arrival.announces_loopback && !arrival.from_loopback) {
    return {Code::kMismatch,
            fmt::format("{} comes from {}, but announces the loopback address {}", describe(other),
                        arrival.remote_host, other.announce_host)};
  }
  member.state = State::kHere;
  member.arrival = arrival;
  member.heard = time_.elapsed();
  presence_changed_ = true;
  if (count(State::kHere) < members_.size()) return {};
  const Status published = publish();
  if (!published.ok()) fail(published);
  return {};
}

// The addresses of members that announce loopback are good only on the rendezvous' own machine. If
// somebody came from elsewhere, they are replaced by the address under which that one got here.
Status Roster::publish() {
  std::string reachable;
  for (const Member& member : members_) {
    if (!member.arrival.from_loopback && reachable.empty()) reachable = member.arrival.local_host;
  }
  std::vector<Identity> everybody;
  for (const Member& member : members_) {
    everybody.push_back(member.arrival.identity);
    if (member.arrival.announces_loopback && !reachable.empty()) {
      everybody.back().announce_host = reachable;
    }
  }
  const MessageBody body = encode_members(everybody);
  if (body.size() > kMaxBody)
    return {Code::kTooLarge, "the list of members is too long for one message"};
  phase_ = Phase::kConnecting;
  broadcast(MeshMessage::kMembers, body);
  return {};
}

void Roster::start() {
  phase_ = Phase::kRunning;
  epoch_ = 1;
  broadcast(MeshMessage::kStart, encode(MembershipMessage{epoch_, 0, {}}));
}

void Roster::fail(const Status& why) {
  phase_ = Phase::kFailed;
  broadcast(MeshMessage::kRefused, encode_refusal(why));
  for (Member& member : members_) member.state = State::kLost;
}

void Roster::on_heard(Rank from) { members_[from].heard = time_.elapsed(); }

void Roster::on_message(Rank from, MeshMessage type, ByteSpan body) {
  Member& member = members_[from];
  if (!is_live(member.state)) return;
  switch (type) {
    case MeshMessage::kReady:
      if (phase_ != Phase::kConnecting) return;
      member.state = State::kReady;
      if (count(State::kReady) == members_.size()) start();
      return;
    case MeshMessage::kSuspect: {
      SuspectMessage message;
      if (decode(body, &message)) suspect(from, message);
      return;
    }
    case MeshMessage::kClear: {
      std::vector<Rank> ranks;
      if (!decode_ranks(body, &ranks) || ranks.size() != 1) return;
      std::erase_if(reports_, [&](const Report& report) {
        return report.reporter == from && report.suspect == ranks[0];
      });
      return;
    }
    case MeshMessage::kLeave:
      if (phase_ == Phase::kRunning) leave(from);
      return;
    case MeshMessage::kAbandon:
      if (phase_ == Phase::kRunning) member.state = State::kAbandoning;
      return;
    case MeshMessage::kHeartbeat:
    case MeshMessage::kPresent:
    case MeshMessage::kMembers:
    case MeshMessage::kStart:
    case MeshMessage::kRefused:
    case MeshMessage::kRemoved:
    case MeshMessage::kMemberLeft:
    case MeshMessage::kLeaveDone:
    case MeshMessage::kClosing:
    case MeshMessage::kAddress:
      return;
  }
}

void Roster::on_closed(Rank rank, const std::string& why) {
  Member& member = members_[rank];
  if (!is_live(member.state)) return;
  const std::string who = describe(member.arrival.identity);
  switch (phase_) {
    case Phase::kGathering:
      member.state = State::kAbsent;
      // Where the host gives up, the rendezvous ends; the others want to know who was missing
      // before.
      presence_changed_ = presence_changed_ || host_ != rank;
      return;
    case Phase::kConnecting:
      member.state = State::kLost;
      fail(Status(Code::kPeerLost,
                  fmt::format("{} was lost while the mesh was joined: {}", who, why)));
      return;
    case Phase::kRunning:
      member.state = State::kLost;  // not there to be told
      remove(rank, fmt::format("its control connection ended: {}", why));
      return;
    case Phase::kFailed:
      return;
  }
}

void Roster::remove(Rank rank, const std::string& reason) {
  ++epoch_;
  // The removed one is told as well: it may only have been stopped, and resume.
  const MessageBody body = encode(MembershipMessage{epoch_, rank, reason});
  if (is_live(members_[rank].state)) send(rank, MeshMessage::kRemoved, body);
  members_[rank].state = State::kLost;
  broadcast(MeshMessage::kRemoved, body);
  forget_reports(rank);
}

void Roster::leave(Rank rank) {
  ++epoch_;
  members_[rank].state = State::kLeft;
  broadcast(MeshMessage::kMemberLeft, encode(MembershipMessage{epoch_, rank, {}}));
  send(rank, MeshMessage::kLeaveDone);
  forget_reports(rank);
}

void Roster::forget_reports(Rank rank) {
  std::erase_if(reports_, [rank](const Report& report) {
    return report.reporter == rank || report.suspect == rank;
  });
}

void Roster::suspect(Rank from, const SuspectMessage& message) {
  if (phase_ != Phase::kRunning || message.rank >= members_.size() || message.rank == from ||
      !is_live(members_[message.rank].state)) {
    return;
  }
  const auto known = std::find_if(reports_.begin(), reports_.end(), [&](const Report& report) {
    return report.reporter == from && report.suspect == message.rank &&
           report.suspicion == message.suspicion;
  });
  if (known != reports_.end()) return;
  reports_.push_back({from, message.rank, message.suspicion, time_.elapsed(), message.reason});
}

void Roster::judge(Nanoseconds now) {
  time_.advance(now);
  if (phase_ == Phase::kRunning) {
    judge_abandoned();
    judge_reports();
    resolve_broken_pairs();
  }
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + timers_.heartbeat;
    broadcast(MeshMessage::kHeartbeat, {});
  }
  if (presence_changed_ && phase_ == Phase::kGathering && now >= next_presence_) {
    next_presence_ = now + kPresenceInterval;
    announce_presence();
  }
}

void Roster::announce_presence() {
  presence_changed_ = false;
  broadcast(MeshMessage::kPresent, encode_ranks(live()));
}

void Roster::judge_abandoned() {
  const uint32_t leaving_now = count(State::kAbandoning);
  if (leaving_now == 0) return;
  abandoned_ += leaving_now;
  auto others = static_cast<uint32_t>(live().size()) + abandoned_;
  if (host_ && is_live(members_[*host_].state)) --others;
  const bool deposed = 2 * abandoned_ > others;
  for (Rank rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank].state != State::kAbandoning) continue;
    if (deposed) {
      members_[rank].state = State::kLost;
      forget_reports(rank);
    } else {
      remove(rank, "it lost its connection to the rendezvous");
    }
  }
  if (!deposed) return;
  for (const Rank rank : live()) {
    remove(rank, "the rendezvous was silent to the other ranks, and they went on without it");
  }
}

void Roster::judge_reports() {
  for (bool again = true; again;) {
    again = false;
    for (const Report& report : reports_) {
      const Nanoseconds silence = time_.elapsed() - members_[report.suspect].heard;
      if (report.suspicion != Suspicion::kSilent || silence < timers_.confirm) continue;
      const Rank rank = report.suspect;
      const std::string reason = fmt::format("it was silent for {} ms", silence / 1'000'000);
      remove(rank, reason);  // drops the reports about it
      again = true;
      break;
    }
  }
}

void Roster::resolve_broken_pairs() {
  for (;;) {
    std::vector<uint32_t> broken(members_.size(), 0);
    for (const Report& report : reports_) {
      const Nanoseconds patience =
          report.suspicion == Suspicion::kClosed ? timers_.broken_link : timers_.unresolved;
      if (time_.elapsed() - report.since < patience) continue;
      ++broken[report.reporter];
      ++broken[report.suspect];
    }
    Rank worst = 0;
    for (Rank rank = 0; rank < broken.size(); ++rank) {
      if (broken[rank] >= broken[worst]) worst = rank;
    }
    if (broken.empty() || broken[worst] == 0) return;
    remove(worst, "it and another rank could not reach each other, though both were alive");
  }
}

}  // namespace asyncmesh::mesh
