// The order of forwards, backwards and updates of one pipeline stage: a pure state machine.
//
// Modes, with F micro-batches in flight at most and one update per K micro-batches:
//   deterministic  1F1B: fill to F forwards, then strictly backward, (update), forward, ... With
//                  F = P - s and K = 1 forward k runs on version max(0, k - (P - 1 - s)), and so
//                  does its backward.
//   opportunistic  a backward whose gradient is there goes first, then a forward, else wait.
//   synchronous    no forward of the next update before the update: fill and drain. Delay 0.
//
// Versions count updates. A micro-batch is run forward and backward on the version that was newest
// at its forward, kept in slot `version % ring` of the stash; the ring is as long as versions can
// be alive at a time: ceil((F - 1) / K) + 1 (P - s with the least F and K = 1; 1 when synchronous).
// The delay of a gradient is the number of updates between the weights it was taken on and those
// that it changes: floor((2 (F - 1) + 1) / (2 K)) nominally, measured per update as well.
//
// Every answer but kWait and kDone is committed: do it, then ask again. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace asyncmesh {

enum class StageMode : uint32_t { kOpportunistic = 0, kDeterministic = 1, kSynchronous = 2 };

struct StageConfig {
  uint32_t stages = 1;                    // P
  uint32_t stage = 0;                     // s
  uint32_t in_flight = 0;                 // F, at least P - s (or K when synchronous); 0: P - s
  uint32_t micro_batches_per_update = 1;  // K
  StageMode mode = StageMode::kOpportunistic;
  uint64_t total = 0;  // micro-batches to run; 0: unlimited
};

enum class StageStep : uint32_t { kWait = 0, kForward = 1, kBackward = 2, kUpdate = 3, kDone = 4 };

struct StageReady {
  bool forward = false;   // the input of the next forward is there
  bool backward = false;  // the gradient of the oldest micro-batch in flight is there
};

struct StageAction {
  StageStep step = StageStep::kWait;
  uint64_t micro_batch = 0;     // kForward, kBackward
  uint64_t version = 0;         // to run on; kUpdate: the one that it makes
  uint32_t slot = 0;            // of that version in the stash
  uint32_t delay = 0;           // kUpdate: of the oldest gradient in it, in updates
  uint32_t gradients = 0;       // kUpdate: micro-batches accumulated, K but for the last of a total
  bool wants_forward = false;   // kWait: an input would help
  bool wants_backward = false;  // kWait: a gradient would help
};

struct StageDelays {
  uint64_t updates = 0;
  uint64_t gradients = 0;
  uint64_t sum = 0;  // of the delays of all gradients
  uint32_t largest = 0;
};

// Delay in updates of a stage with F in flight and K per update, as the method states it.
uint32_t nominal_delay(uint32_t in_flight, uint32_t micro_batches_per_update) noexcept;

class StageSchedule {
 public:
  // InvalidArgument: stage >= stages, K = 0, or fewer in flight than the pipeline needs.
  static Result<StageSchedule> create(const StageConfig& config);

  StageAction next(const StageReady& ready);

  // True between an update and the first forward of its version: when averaging may write weights.
  bool between_versions() const { return fresh_; }
  uint64_t version() const { return version_; }
  uint32_t ring() const { return ring_; }
  uint32_t slot_of(uint64_t version) const { return static_cast<uint32_t>(version % ring_); }
  uint32_t in_flight() const { return static_cast<uint32_t>(forwards_ - backwards_); }
  uint32_t delay() const { return delay_; }  // nominal
  const StageConfig& config() const { return config_; }
  const StageDelays& delays() const { return delays_; }

  // Moves the end of the run: to drain for an evaluation and go on after, for instance. The total
  // is at least the forwards done; 0: unlimited.
  Status set_total(uint64_t total);

 private:
  explicit StageSchedule(const StageConfig& config);

  bool may_forward() const;
  bool update_due() const;
  StageAction forward();
  StageAction backward();
  StageAction update();

  StageConfig config_;
  uint32_t ring_ = 1;
  uint32_t delay_ = 0;
  uint64_t forwards_ = 0;
  uint64_t backwards_ = 0;
  uint64_t version_ = 0;
  uint64_t started_ = 0;      // forwards since the last update; synchronous
  uint32_t accumulated_ = 0;  // backwards since the last update
  uint32_t worst_delay_ = 0;  // among them
  bool fresh_ = true;
  std::vector<uint64_t> versions_;  // by micro-batch % F: the version of its forward
  StageDelays delays_;
};

}  // namespace asyncmesh
