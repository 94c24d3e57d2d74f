// Resolving the oldest open round: is everything there, the mean, the rule.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "averaging/averager.h"
#include "averaging/geometry.h"
#include "averaging/piece_tasks.h"
#include "averaging/schedule.h"
#include "averaging/stability.h"

namespace asyncmesh {

Averager::Arrival Averager::arrival(uint32_t member, const Round& round) {
  while (queues_.depth(member) > 0 && queues_.at(member, 0).meta.round < round.number) {
    queues_.discard(member);
  }
  const uint64_t per_piece = values_per_piece(config_.encoding, rounds_.payload_bytes());
  uint32_t& checked = checked_[member];
  for (; checked < round.pieces; ++checked) {
    if (checked == queues_.depth(member)) {
      // A member that finished has sent all that it ever will.
      return queues_.finished(member) ? Arrival::kAbsent : Arrival::kMissing;
    }
    const Delta& delta = queues_.at(member, checked);
    const DeltaMeta& meta = delta.meta;
    if (meta.round != round.number) return checked == 0 ? Arrival::kAbsent : Arrival::kBroken;
    const bool right = meta.kind == DeltaKind::kRound && meta.encoding == config_.encoding &&
                       meta.pieces == round.pieces && meta.piece == checked &&
                       meta.count == std::min(per_piece, round.elements - checked * per_piece) &&
                       delta.bytes == kernels::encoded_bytes(config_.encoding, meta.count);
    if (!right) return Arrival::kBroken;
  }
  return Arrival::kWhole;
}

Averager::Gathered Averager::gather(const Round& round) {
  bool missing = false;
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    weights_[member] = 0.0F;
    broken_[member] = 0;
    if (member == rounds_.self()) {
      weights_[member] = round.weight;
      continue;
    }
    if (!queues_.contributes(member, round.number)) continue;
    switch (arrival(member, round)) {
      case Arrival::kWhole:
        weights_[member] = std::max(queues_.at(member, 0).meta.weight, 0.0F);
        break;
      case Arrival::kMissing:
        missing = true;
        break;
      case Arrival::kBroken:
        broken_[member] = 1;
        break;
      case Arrival::kAbsent:
        return Gathered::kSkipped;
    }
  }
  return missing ? Gathered::kWaiting : Gathered::kReady;
}

Averager::Resolution Averager::resolve(const CallArgs& args) {
  const Round& round = open_.front();
  const Gathered gathered = gather(round);
  if (gathered == Gathered::kWaiting) return Resolution::kWaiting;
  if (gathered == Gathered::kSkipped) {
    // A live member resumed the training above this round: it will never be complete.
    ++stats_.rounds_discarded;
    retire(false);
    return Resolution::kDropped;
  }
  const bool enough = average(round);
  if (enough) {
    apply(round, args);
  } else {
    ++stats_.too_few;
  }
  retire(true);
  return enough ? Resolution::kApplied : Resolution::kDropped;
}

// One piece; returns the members whose values are not finite. `values` has room for all members.
uint64_t Averager::average_piece(const Round& round, uint32_t piece, const std::byte** values,
                                 const kernels::Execution& on) {
  const uint64_t per_piece = values_per_piece(config_.encoding, rounds_.payload_bytes());
  const uint64_t first = piece * per_piece;
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    if (weights_[member] <= 0.0F) {
      values[member] = nullptr;
    } else if (member == rounds_.self()) {
      values[member] = round.own + kernels::encoded_bytes(config_.encoding, first);
    } else {
      values[member] = queues_.at(member, piece).values;
    }
  }
  uint64_t not_finite = 0;
  kernels_.average({.values = values,
                    .weights = weights_.data(),
                    .members = rounds_.size(),
                    .encoding = config_.encoding},
                   std::min(per_piece, round.elements - first), mean_.data() + first, &not_finite,
                   on);
  return not_finite;
}

// Averages every piece; returns the members whose values are not finite.
uint64_t Averager::average_pieces(const Round& round) {
  std::atomic<uint64_t> not_finite{0};
  // Where pieces are spread over the threads, each is averaged by one of them.
  const kernels::Execution on =
      piece_tasks(on_.workers, round.pieces) > 1 ? kernels::Execution{} : on_;
  for_each_piece(on_.workers, round.pieces, [&](uint32_t piece, uint32_t task) {
    const std::byte** const values = values_.data() + size_t{task} * rounds_.size();
    not_finite.fetch_or(average_piece(round, piece, values, on), std::memory_order_relaxed);
  });
  return not_finite.load(std::memory_order_relaxed);
}

bool Averager::average(const Round& round) {
  const auto contributors = [&] {
    return std::count_if(weights_.begin(), weights_.end(), [](float w) { return w > 0.0F; });
  };
  if (contributors() < 2) return false;
  const uint64_t not_finite = average_pieces(round);
  if (not_finite == 0) return true;
  // A contribution counts whole or not at all, though the kernel sees it piece by piece.
  stats_.not_finite += static_cast<uint64_t>(std::popcount(not_finite));
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    if ((not_finite >> member & 1) != 0) weights_[member] = 0.0F;
  }
  if (contributors() < 2) return false;
  average_pieces(round);
  return true;
}

float Averager::momentum(uint64_t delay, double progress) {
  const double scheduled = momentum_at(
      {.first = config_.momentum_first, .last = config_.momentum_last, .warm_up = config_.warm_up},
      progress);
  if (delay > delay_) {
    delay_ = delay;
    stats_.q = writes_between(config_, partition_.parts(), delay);
    guarded_momentum_ = guarded_momentum(stability_limit(config_, partition_.parts(), delay));
  }
  double used = scheduled;
  if (config_.rule == kernels::Rule::kEma && config_.mode == AveragingMode::kOpportunistic) {
    used = std::max(scheduled, guarded_momentum_);
    if (used > scheduled) ++stats_.momentum_raised;
  }
  stats_.margin = stability_margin(loop_gain(config_.rule, used, config_.scale), worst_limit_);
  return static_cast<float>(used);
}

void Averager::apply(const Round& round, const CallArgs& args) {
  const uint64_t delay = stats_.rounds_applied - round.writes_before;
  const bool ema = config_.rule == kernels::Rule::kEma;
  // The published code gives the full drift to the first subset that it ever writes, and to no
  // other.
  const bool full =
      config_.init == EmaInit::kFirstVisit || (config_.init == EmaInit::kParity && !written_);
  kernels_.apply(partition_.table(), round.subset,
                 {.rule = config_.rule,
                  .momentum = momentum(delay, args.progress),
                  .scale = static_cast<float>(config_.scale),
                  .first_visit_full = full},
                 {.snapshot = round.snapshot,
                  .mean = mean_.data(),
                  .own = kernels::lossless(config_.encoding) ? nullptr : round.own,
                  .encoding = config_.encoding,
                  .ema = ema ? ema_.data() : nullptr,
                  .visited = ema ? visited_.data() : nullptr,
                  .mirror = args.mirror},
                 on_);
  written_ = written_ || round.elements > 0;
  ++stats_.rounds_applied;
  ++result_.applied;
  result_.age_rounds = next_round_ - 1 - round.number;
  result_.age_calls = calls_ - round.call;
  result_.age_ns = clock_.now() - round.started;
}

// Forgets the oldest round and returns the slots of its frames.
void Averager::retire(bool used) {
  const uint64_t number = open_.front().number;
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    checked_[member] = 0;
    while (queues_.depth(member) > 0 && queues_.at(member, 0).meta.round <= number) {
      if (used && broken_[member] == 0) {
        queues_.drop(member);
      } else {
        queues_.discard(member);
      }
    }
  }
  open_.pop();
}

}  // namespace asyncmesh
