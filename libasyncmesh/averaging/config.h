// What an averager is told at creation, and what it answers per call. Units and defaults as in
// asyncmesh.h.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "kernels/kernels.h"

namespace asyncmesh {

enum class AveragingMode : uint32_t { kOpportunistic = 0, kDeterministic = 1 };
enum class EmaInit : uint32_t { kFirstVisit = 0, kZero = 1, kParity = 2 };
// Which blocks a round takes. kRotation: part k % N of a partition, every block once in N rounds.
// kRandom: every block with probability `fraction`, independently in each round.
enum class Selection : uint32_t { kRotation = 0, kRandom = 1 };
enum class Redraw : uint32_t { kEveryCycle = 0, kFixed = 1 };

struct AveragerConfig {
  Selection selection = Selection::kRotation;
  double fraction = 0.05;     // p in (0, 1]; N = min(ceil(1 / p), blocks of the table)
  uint32_t granularity = 64;  // elements per block
  kernels::Rule rule = kernels::Rule::kEma;
  EmaInit init = EmaInit::kFirstVisit;
  AveragingMode mode = AveragingMode::kOpportunistic;
  uint32_t window = 10;  // W; deterministic: tau, the exact delay in calls (0: within the call)
  Redraw redraw = Redraw::kEveryCycle;  // kRotation; kRandom draws in every round
  uint64_t seed = 0;  // of the permutations; the same on all members. 0 with kFixed: the identity
  uint64_t group_key = 0;                                    // mixed into the seed
  kernels::Encoding encoding = kernels::Encoding::kFloat32;  // of rounds; means travel as fp32
  kernels::Rounding rounding = kernels::Rounding::kNearest;  // random bits: rounding_seed
  double scale = 1.0;                                        // lambda
  double momentum_first = 0.5;                               // m_0 of (3.4)
  double momentum_last = 0.99;
  double warm_up = 1.0 / 30;  // fraction of the progress before the cosine starts
};

struct CallArgs {
  const kernels::ParameterTable* mirror = nullptr;  // refreshed where the weights are written
  float weight = 1.0F;                              // of this rank in the rounds it starts now
  double progress = 0.0;                            // of the training, 0..1, for (3.4)
  Nanoseconds deadline = kNever;                    // absolute; deterministic mode only
};

struct CallResult {
  uint64_t started = 0;       // rounds started in this call: 0 or 1
  uint64_t applied = 0;       // rounds applied in this call
  uint64_t skipped = 0;       // 1: the window was full or a lane had no room, no round was started
  uint64_t open = 0;          // rounds open after the call
  uint64_t age_rounds = 0;    // of the last round applied: rounds started since it
  uint64_t age_calls = 0;     //   calls since it started
  Nanoseconds age_ns = 0;     //   time since it started
  Nanoseconds wait_ns = 0;    // blocked in this call
  uint64_t bytes_posted = 0;  // payload bytes x live members
};

struct MeanArgs {
  float weight = 1.0F;            // of this rank; broadcast: 1 on the master, 0 elsewhere
  Nanoseconds deadline = kNever;  // absolute
};

struct AveragerStats {
  uint64_t calls = 0;
  uint64_t rounds_started = 0;
  uint64_t rounds_applied = 0;    // and written
  uint64_t rounds_skipped = 0;    // calls that started none: window full, or a lane without room
  uint64_t rounds_discarded = 0;  // open at finish or load, or never to be complete
  uint64_t frames_discarded = 0;  // of resolved or foreign rounds, or malformed
  uint64_t not_finite = 0;        // contributions left out
  uint64_t too_few = 0;           // rounds with fewer than two contributors: nothing written
  uint64_t momentum_raised = 0;   // rounds applied with a momentum that the guard raised
  uint64_t bytes_posted = 0;      // payload bytes x receivers, means included
  uint64_t means = 0;             // blocking means completed
  Nanoseconds time_ns = 0;        // inside calls, waiting included; without means
  Nanoseconds wait_ns = 0;        // blocked inside calls
  Nanoseconds mean_ns = 0;        // inside means, finish included
  uint64_t q = 0;  // writes to a coordinate between sampling and applying, largest seen; kRandom:
                   // the mean number of them at the largest delay seen, rounded up
  double margin = 1.0;  // (limit - gain) / limit at the worst delay of the setting: stability.h
};

}  // namespace asyncmesh
