// The averager: keeps the replicas of a parameter table together by averaging a small part of it
// per call (rotating, or drawn at random), without waiting for anyone (opportunistic mode) or
// exactly `window` calls late (deterministic mode).
//
// A round: sample a subset (snapshot), post it to all members, later, when the frames of all
// members are there, average them in member order and apply a rule that keeps what was learnt in
// between.
//
//   opportunistic call: take what arrived, apply complete rounds in order;
//                       then snapshot, pack, post a round
//   deterministic call: snapshot, pack, post round t;
//                       then apply round t - window, waiting for it
//
// Rounds are numbered per group and applied in order. Opportunistic: with `window` rounds open, or
// no room in a lane, a call starts none and counts that; so a fast replica is paced by the slow
// ones without waiting. A round that a member never joined (it resumed at a later number) is
// dropped, and the group goes on from the highest number: nothing is negotiated.
//
// Who counts. A round is complete with the frames of every member that is neither lost nor finished
// before it. Weight 0 receives only. A contribution that is not finite counts with weight 0, whole.
// With fewer than two contributors of weight above 0 nothing is written, the EMA included; alone,
// nothing is even posted. A lost member: the first opportunistic call that sees it returns PeerLost
// and does nothing else; later calls go on without it, and its contributions to open rounds are
// dropped. Deterministic calls return PeerLost from then on: without a vote, survivors cannot agree
// on what had arrived.
//
// Timeout (deterministic calls, mean, finish): state is consistent; the same call made again, the
// weights untouched, resumes where it stopped. After PeerLost from a mean its output is undefined.
//
// Tables: fp32 master weights, or bf16 or fp16 ones without masters. The EMA, snapshots and means
// are fp32; what a rule writes is rounded to the table's storage, to nearest.
//
// Ownership: tensors stay the caller's and alive; mailboxes, kernels, clock and waiter outlive the
// averager. Threads: one caller at a time, the mailboxes' application thread. A call allocates
// nothing. Encoded values and state lie in host memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "averaging/config.h"
#include "averaging/delta_queues.h"
#include "averaging/mean_exchange.h"
#include "averaging/partition.h"
#include "averaging/round.h"
#include "base/clock.h"
#include "base/large_vector.h"
#include "base/status.h"
#include "base/waiter.h"
#include "kernels/kernels.h"
#include "mailbox/mailbox.h"

namespace asyncmesh {

// What an averager works with. Everything outlives it.
struct AveragerParts {
  Mailbox& rounds;  // sized by averager_geometry; nobody else posts or takes
  Mailbox& means;
  const kernels::Table& kernels;
  const Clock& clock;
  Waiter& waiter;
  kernels::Execution on = {};
};

class Averager {
 public:
  // InvalidArgument: a setting out of range or unstable, tensors that are null or overlap,
  // mailboxes smaller than the geometry asks for. `first_block` of the tensors is ignored.
  static Result<std::unique_ptr<Averager>> create(const AveragerConfig& config,
                                                  const kernels::ParameterTable& table,
                                                  const AveragerParts& parts);
  Averager(const Averager&) = delete;
  Averager& operator=(const Averager&) = delete;

  // Once per optimiser step, after it. `result_out` may be null and is set on success only.
  Status call(const CallArgs& args, CallResult* result_out);

  // Blocking weighted mean over the members, bitwise equal on all of them. `in` and `out` have
  // equal counts (out may be in, or share no memory with it), each a storage of its own: the fp32
  // mean is rounded to that of `out`. Collective, in the same order everywhere. InvalidArgument on
  // all members when every weight is 0. A member whose input is not finite counts with weight 0.
  Status mean(const kernels::ParameterTable& in, const kernels::ParameterTable& out,
              const MeanArgs& args);

  // Leaves the rounds: open ones are dropped, later ones go on without this member, whose frames
  // keep being taken while it waits. Then a mean of the whole table in place, over all members.
  // Ok again when called again.
  Status finish(const MeanArgs& args);
  bool finished() const { return phase_ == Phase::kFinished; }

  const AveragerStats& stats() const { return stats_; }
  const Partition& partition() const { return partition_; }
  const AveragerConfig& config() const { return config_; }
  uint32_t members() const { return rounds_.size(); }
  uint64_t next_round() const { return next_round_; }
  // The rank that the last PeerLost was about.
  Rank lost_rank() const { return lost_rank_; }

  // Follows tensors that moved; counts and storage must be the same.
  Status rebind(const kernels::ParameterTable& table);

  // EMA, visited blocks and round number, exactly. Open rounds are not in it: `load` drops them,
  // and the group goes on at the highest number that a member comes with. Load on all members,
  // before calling again. TooLarge: `buffer` is smaller than state_bytes(). Mismatch: another
  // table, rule or granularity, or bytes that no averager wrote; nothing changed.
  uint64_t state_bytes() const;
  Status save(std::span<std::byte> buffer) const;
  Status load(std::span<const std::byte> bytes);

 private:
  enum class Phase { kOpen, kFinishing, kFinalMean, kFinished };
  enum class Arrival { kMissing, kWhole, kBroken, kAbsent };
  enum class Gathered { kWaiting, kReady, kSkipped };
  enum class Resolution { kWaiting, kApplied, kDropped };

  Averager(const AveragerConfig& config, Partition partition, const AveragerParts& parts);

  Status call_opportunistic(const CallArgs& args);
  Status call_deterministic(const CallArgs& args);
  Status check_lost();
  Status peer_lost(Rank rank);
  Status pause(Nanoseconds deadline);

  // averager_start.cc
  bool start(const CallArgs& args);  // false: no room
  bool alone() const;
  Rank own_rank() const { return rounds_.rank_of(rounds_.self()); }
  uint32_t receivers() const;
  bool claim_pieces(uint32_t pieces);
  void post(const Round& round);
  void skip_ahead();

  // averager_resolve.cc
  Resolution resolve(const CallArgs& args);  // the oldest open round
  Arrival arrival(uint32_t member, const Round& round);
  Gathered gather(const Round& round);
  bool average(const Round& round);
  uint64_t average_piece(const Round& round, uint32_t piece, const std::byte** values,
                         const kernels::Execution& on);
  uint64_t average_pieces(const Round& round);
  void apply(const Round& round, const CallArgs& args);
  float momentum(uint64_t delay, double progress);
  void retire(bool used);

  // averager_mean.cc
  Status check_mean_lost();
  Status run_mean(Nanoseconds deadline);
  Status post_finish(Nanoseconds deadline);
  void discard_rounds();

  AveragerConfig config_;
  Partition partition_;
  Mailbox& rounds_;
  Mailbox& means_;
  const kernels::Table& kernels_;
  const kernels::Execution on_;
  const Clock& clock_;
  Waiter& waiter_;

  DeltaQueues queues_;
  RoundRing open_;
  MeanExchange exchange_;
  std::vector<Mailbox::Post> posts_;      // claimed for the round being started
  std::vector<uint32_t> checked_;         // per member: pieces of the oldest round seen to be right
  std::vector<float> weights_;            // per member, of the round being resolved
  std::vector<uint8_t> broken_;           // per member: malformed contribution to it
  std::vector<const std::byte*> values_;  // per thread and member, of the piece being averaged
  std::vector<uint8_t> known_lost_;       // per member: reported
  LargeVector<float> mean_;
  LargeVector<float> ema_;         // kEma: over the table, in element order
  std::vector<uint64_t> visited_;  // kEma: one bit per block

  uint64_t next_round_ = 0;
  uint64_t calls_ = 0;        // completed; the number of the one in progress
  bool posted_ = false;       // deterministic: this call's round is posted, the due one is awaited
  bool written_ = false;      // something has been written since the start of the training
  double worst_limit_ = 2.0;  // of the gain, at the worst delay of the setting
  double guarded_momentum_ = 0;  // for the largest delay seen
  uint64_t delay_ = 0;           // the largest seen
  Phase phase_ = Phase::kOpen;
  bool finish_posted_ = false;
  Rank lost_rank_ = 0;
  CallResult result_;  // of the call in progress
  AveragerStats stats_;
};

}  // namespace asyncmesh
