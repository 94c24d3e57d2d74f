// The rendezvous' view of one job (sans-I/O): who is here, when the mesh is up, and who is removed.
//
//      gathering --all are here--> connecting --all are ready--> running
//          ^---a member goes---'        '---a member goes---> failed (all are told)
//
// Running: a member whose connection ends without a leave is removed at once (its process died).
// Silence alone removes nobody: a peer has to suspect it, and it has to be silent to the rendezvous
// as well. Where two members cannot talk though both live, one goes: the one with the most such
// pairs, then the higher rank. Members that think the rendezvous is gone abandon it; if they are
// the majority, the host of the rendezvous is the one that was cut off, and is told so; else they
// are removed.
//
// Input comes by calls; what is to be sent comes out of `take_outgoing`. Silence counts in progress
// time. Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "mesh/identity.h"
#include "mesh/messages.h"
#include "mesh/progress_time.h"

namespace asyncmesh::mesh {

// Where the connection of a member came from, and the address under which it reached the
// rendezvous.
struct Arrival {
  Identity identity;
  std::string remote_host;
  std::string local_host;
  bool from_loopback = false;
  bool announces_loopback = false;
};

class Roster {
 public:
  enum class Phase { kGathering, kConnecting, kRunning, kFailed };
  struct Outgoing {
    Rank to;
    MeshMessage type;
    MessageBody body;
  };

  // `reference`: geometry, versions and timeout that all must share. `host`: the rank whose process
  // serves the rendezvous, if one does.
  Roster(const Identity& reference, std::optional<Rank> host, Nanoseconds now);

  // kMismatch: with the difference, or a rank that is taken. kAgain: this job has started, or
  // another run is served here; the place may become free when that ends. Nothing changes unless
  // ok.
  Status admit(const Arrival& arrival);
  void on_message(Rank from, MeshMessage type, ByteSpan body);
  void on_heard(Rank from);
  void on_closed(Rank rank, const std::string& why);
  // After all pending input was handled, and every `timers().tick / 2`.
  void judge(Nanoseconds now);

  std::vector<Outgoing> take_outgoing() { return std::exchange(outgoing_, {}); }
  const Timers& timers() const { return timers_; }
  Phase phase() const { return phase_; }
  uint64_t epoch() const { return epoch_; }
  // False once this rank was removed: its connection ends when it was told so.
  bool keeps(Rank rank) const { return members_[rank].state != State::kLost; }
  bool empty() const;  // nobody is left
  // The host of the rendezvous has left in good order (or there is none).
  bool host_has_left() const { return !host_ || members_[*host_].state == State::kLeft; }

 private:
  enum class State { kAbsent, kHere, kReady, kAbandoning, kLeft, kLost };
  struct Member {
    State state = State::kAbsent;
    Arrival arrival;
    Nanoseconds heard = 0;  // progress time
  };
  struct Report {
    Rank reporter;
    Rank suspect;
    Suspicion suspicion;
    Nanoseconds since;  // progress time
    std::string reason;
  };

  static bool is_live(State state) { return state == State::kHere || state == State::kReady; }
  uint32_t count(State state) const;
  std::vector<Rank> live() const;
  void send(Rank to, MeshMessage type, MessageBody body = {});
  void broadcast(MeshMessage type, const MessageBody& body);
  void announce_presence();
  Status publish();
  void start();
  void fail(const Status& why);
  void remove(Rank rank, const std::string& reason);
  void leave(Rank rank);
  void suspect(Rank from, const SuspectMessage& message);
  void forget_reports(Rank rank);
  void judge_abandoned();
  void judge_reports();
  void resolve_broken_pairs();

  const Identity reference_;
  const std::optional<Rank> host_;
  const Timers timers_;
  ProgressTime time_;
  Phase phase_ = Phase::kGathering;
  uint64_t epoch_ = 0;
  std::vector<Member> members_;  // by rank
  std::vector<Report> reports_;
  uint32_t abandoned_ = 0;  // in all
  bool presence_changed_ = false;
  Nanoseconds next_heartbeat_;  // real time
  Nanoseconds next_presence_;   // real time
  std::vector<Outgoing> outgoing_;
};

}  // namespace asyncmesh::mesh
