// R replicas of one table in one thread: averagers over fake lanes, pumped by hand, with a clock
// that moves only when somebody waits in vain.
//
//      Replicas replicas(2, config, {4});
//      replicas.weights(0) ...                 flat over the table
//      replicas.call_all(args);                all replicas, repeating those that timed out
//
// A blocking operation of all replicas is driven by repeating each one's call after its timeout,
// which is what the averager promises to resume.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "averaging/averager.h"
#include "averaging/geometry.h"
#include "support/fake_mesh.h"
#include "support/tensors.h"

namespace asyncmesh::test {

class PumpWaiter final : public Waiter {
 public:
  PumpWaiter(FakeMesh& rounds, FakeMesh& means, FakeClock& clock)
      : rounds_(rounds), means_(means), clock_(clock) {}
  Code wait(Nanoseconds deadline) noexcept override {
    ++waits;
    if (rounds_.pump() + means_.pump() > 0) return Code::kOk;
    if (deadline != kNever && deadline > clock_.now()) clock_.advance(deadline - clock_.now());
    return Code::kTimeout;
  }
  uint64_t waits = 0;

 private:
  FakeMesh& rounds_;
  FakeMesh& means_;
  FakeClock& clock_;
};

class Replicas {
 public:
  struct Options {
    uint32_t payload_bytes = 0;  // 0: as the geometry says; else smaller pieces
    bool quiet = false;          // creation may fail: see `status`
    kernels::Workers* workers = nullptr;
    kernels::Encoding storage = kernels::Encoding::kFloat32;  // 16 bits: `words`, not `weights`
  };

  Replicas(uint32_t count, const AveragerConfig& config, std::vector<uint64_t> tensors,
           const Options& options);
  Replicas(uint32_t count, const AveragerConfig& config, std::vector<uint64_t> tensors)
      : Replicas(count, config, std::move(tensors), Options{}) {}
  ~Replicas();

  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  uint64_t elements() const { return elements_; }
  Averager& averager(uint32_t replica) { return *members_[replica].averager; }
  std::vector<float>& weights(uint32_t replica) { return members_[replica].weights; }
  std::vector<uint16_t>& words(uint32_t replica) { return members_[replica].words; }  // 16 bits
  Tensors table(std::vector<float>& flat) const { return tensors_in(flat.data(), counts_); }
  Mailbox& rounds(uint32_t replica) { return *members_[replica].rounds; }
  Mailbox& means(uint32_t replica) { return *members_[replica].means; }
  FakeClock& clock() { return clock_; }
  const Status& status() const { return status_; }
  uint64_t waits(uint32_t replica) const { return members_[replica].waiter->waits; }

  void add(uint32_t replica, const std::function<float(uint64_t)>& change);
  // One call of every replica, pumped to the end.
  void call_all(const CallArgs& args);
  CallResult call(uint32_t replica, const CallArgs& args);  // expected to succeed at once
  void pump() { rounds_mesh_.pump(), means_mesh_.pump(); }
  void pump_rounds() { rounds_mesh_.pump(); }
  // The links between two replicas fail and come back; what was in flight is replayed.
  void reset_links(uint32_t a, uint32_t b);
  void kill(uint32_t replica) { rounds_mesh_.kill(replica), means_mesh_.kill(replica); }
  // Repeats `operation` on every replica of `who` until none times out any more.
  std::vector<Status> run_all(std::span<const uint32_t> who,
                              const std::function<Status(uint32_t)>& operation);
  std::vector<Status> run_all(const std::function<Status(uint32_t)>& operation);

 private:
  struct Member {
    std::unique_ptr<Mailbox> rounds;
    std::unique_ptr<Mailbox> means;
    std::unique_ptr<PumpWaiter> waiter;
    std::unique_ptr<Averager> averager;
    std::vector<float> weights;
    std::vector<uint16_t> words;
  };

  FakeClock clock_;
  DirectSubmitter submitter_;
  std::vector<uint64_t> counts_;
  uint64_t elements_ = 0;
  std::vector<Member> members_;
  FakeMesh rounds_mesh_;
  FakeMesh means_mesh_;
  Status status_;
};

// Part number of every element of the table in `cycle`.
std::vector<uint32_t> parts_of_elements(const Averager& averager, uint64_t cycle);

// With fixed rotation, identity partition, one element per block: the setting of the oracles.
AveragerConfig oracle_config(kernels::Rule rule, double fraction, uint32_t tau);

// oracle_config with the rule ema in opportunistic mode.
AveragerConfig opportunistic(double fraction, uint32_t window);
// Adds values from a seeded stream to every weight of every replica.
void randomise(Replicas& replicas, uint64_t seed);
void expect_all(const std::vector<Status>& statuses, Code code);

}  // namespace asyncmesh::test
