#include "averaging/averager.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "averaging/geometry.h"
#include "averaging/stability.h"
#include "kernels/workers.h"

namespace asyncmesh {
namespace {

Status invalid(std::string text) { return {Code::kInvalidArgument, std::move(text)}; }

bool between(double value, double low, double high) { return value >= low && value <= high; }

Status check_settings(const AveragerConfig& config) {
  if (!between(config.scale, 0.0, 2.0)) return invalid("scale is not in [0, 2]");
  if (!between(config.momentum_first, 0.0, 1.0) || !between(config.momentum_last, 0.0, 1.0)) {
    return invalid("momentum is not in [0, 1]");
  }
  if (!between(config.warm_up, 0.0, 1.0)) return invalid("warm_up is not in [0, 1]");
  if (config.mode == AveragingMode::kOpportunistic && config.window == 0) {
    return invalid("an opportunistic averager needs a window of at least 1");
  }
  if (config.window > 1U << 16) return invalid("a window of more than 65536 rounds");
  return {};
}

Status check_disjoint(const kernels::ParameterTable& table) {
  const size_t word = kernels::encoded_bytes(table.storage, 1);
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges;  // begin and end
  for (const kernels::TensorView& tensor : std::span(table.tensors, table.size)) {
    const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
    if (tensor.count != 0) ranges.emplace_back(begin, begin + tensor.count * word);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      return invalid("tensors overlap (a tied tensor belongs in the table once)");
    }
  }
  return {};
}

Status check_mailboxes(const AveragerConfig& config, const Partition& partition,
                       const AveragerParts& parts) {
  if (parts.rounds.size() != parts.means.size() || parts.rounds.self() != parts.means.self()) {
    return invalid("the two mailboxes have different members");
  }
  if (parts.rounds.size() > kernels::kMaxMembers) {
    return Status(Code::kUnsupported,
                  fmt::format("{} members, at most {}", parts.rounds.size(), kernels::kMaxMembers));
  }
  const uint64_t values = values_per_piece(config.encoding, parts.rounds.payload_bytes());
  if (values == 0 || parts.means.payload_bytes() < 4) return invalid("a mailbox takes no value");
  const uint32_t pieces =
      pieces_of(partition.max_elements(), config.encoding, parts.rounds.payload_bytes());
  if (kernels::scaled(config.encoding) && pieces > 1 && values % kernels::kGroup != 0) {
    return invalid("the rounds' mailbox takes less than a group of the encoding's values");
  }
  const uint64_t slots = round_slots(config, pieces);
  if (parts.rounds.size() > 1 && parts.rounds.port().config().slots < slots) {
    return invalid(fmt::format("the rounds' mailbox has {} slots, {} are needed",
                               parts.rounds.port().config().slots, slots));
  }
  return {};
}

uint32_t worker_count(const kernels::Execution& on) {
  return on.workers == nullptr ? 1 : on.workers->size();
}

// Alone, nothing is ever sampled.
uint64_t sampled_elements(const Mailbox& rounds, const Partition& partition) {
  return rounds.size() > 1 ? partition.max_elements() : 0;
}

}  // namespace

Result<std::unique_ptr<Averager>> Averager::create(const AveragerConfig& config,
                                                   const kernels::ParameterTable& table,
                                                   const AveragerParts& parts) {
  if (Status status = check_settings(config); !status.ok()) return status;
  Result<Partition> partition = Partition::create(config, table);
  if (!partition.ok()) return partition.status();
  if (Status status = check_disjoint(table); !status.ok()) return status;
  if (Status status = check_stability(config, partition.value().parts()); !status.ok()) {
    return status;
  }
  if (Status status = check_mailboxes(config, partition.value(), parts); !status.ok()) {
    return status;
  }
  return std::unique_ptr<Averager>(new Averager(config, std::move(partition.value()), parts));
}

Averager::Averager(const AveragerConfig& config, Partition partition, const AveragerParts& parts)
    : config_(config),
      partition_(std::move(partition)),
      rounds_(parts.rounds),
      means_(parts.means),
      kernels_(parts.kernels),
      on_(parts.on),
      clock_(parts.clock),
      waiter_(parts.waiter),
      queues_(parts.rounds),
      // A deterministic call samples its round before it applies the one that is due.
      open_(config.mode == AveragingMode::kDeterministic ? config.window + 1 : config.window,
            sampled_elements(parts.rounds, partition_), config.encoding),
      exchange_(parts.means, parts.kernels, parts.on),
      posts_(pieces_of(partition_.max_elements(), config.encoding, parts.rounds.payload_bytes())),
      checked_(parts.rounds.size(), 0),
      weights_(parts.rounds.size(), 0.0F),
      broken_(parts.rounds.size(), 0),
      values_(size_t{worker_count(parts.on)} * parts.rounds.size(), nullptr),
      known_lost_(parts.rounds.size(), 0),
      mean_(sampled_elements(parts.rounds, partition_)) {
  if (config_.rule == kernels::Rule::kEma) {
    ema_.resize(partition_.elements(), 0.0F);
    visited_.resize((partition_.blocks() + 63) / 64, 0);
  }
  worst_limit_ = stability_limit(config_, partition_.parts(), worst_delay(config_));
  stats_.margin = stability_margin(loop_gain(config_.rule, config_.momentum_first, config_.scale),
                                   worst_limit_);
}

Status Averager::rebind(const kernels::ParameterTable& table) {
  if (Status status = check_disjoint(table); !status.ok()) return status;
  return partition_.rebind(table);
}

}  // namespace asyncmesh
