#include "pipeline/stage_schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace asyncmesh {

uint32_t nominal_delay(uint32_t in_flight, uint32_t micro_batches_per_update) noexcept {
  const uint64_t ahead = in_flight == 0 ? 0 : in_flight - 1;
  return static_cast<uint32_t>((2 * ahead + 1) / (2 * uint64_t{micro_batches_per_update}));
}

Result<StageSchedule> StageSchedule::create(const StageConfig& config) {
  if (config.stages == 0 || config.stage >= config.stages) {
    return Status(Code::kInvalidArgument,
                  fmt::format("stage {} of {}", config.stage, config.stages));
  }
  if (config.micro_batches_per_update == 0) {
    return Status(Code::kInvalidArgument, "0 micro-batches per update");
  }
  if (config.in_flight > 1U << 20) {
    return Status(Code::kInvalidArgument, "more than 2^20 micro-batches in flight");
  }
  StageConfig full = config;
  const uint32_t depth = config.stages - config.stage;
  if (full.in_flight == 0) full.in_flight = depth;
  // A flush never has more in flight than one update takes.
  const uint32_t least = config.mode == StageMode::kSynchronous
                             ? std::min(depth, config.micro_batches_per_update)
                             : depth;
  if (full.in_flight < least) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} micro-batches in flight; stage {} of {} needs {}", full.in_flight,
                              config.stage, config.stages, least));
  }
  return StageSchedule(full);
}

StageSchedule::StageSchedule(const StageConfig& config)
    : config_(config), versions_(config.in_flight, 0) {
  if (config.mode == StageMode::kSynchronous) return;
  const uint32_t updates = config.micro_batches_per_update;
  ring_ = (config.in_flight - 1 + updates - 1) / updates + 1;
  delay_ = nominal_delay(config.in_flight, updates);
}

bool StageSchedule::may_forward() const {
  if (config_.total != 0 && forwards_ >= config_.total) return false;
  if (in_flight() >= config_.in_flight) return false;
  return config_.mode != StageMode::kSynchronous || started_ < config_.micro_batches_per_update;
}

bool StageSchedule::update_due() const {
  if (accumulated_ == config_.micro_batches_per_update) return true;
  const bool over = config_.total != 0 && forwards_ >= config_.total && in_flight() == 0;
  return over && accumulated_ > 0;
}

StageAction StageSchedule::next(const StageReady& ready) {
  if (update_due()) return update();
  const bool can_forward = may_forward();
  const bool can_backward = in_flight() > 0;
  if (config_.mode == StageMode::kOpportunistic) {
    if (can_backward && ready.backward) return backward();
    if (can_forward && ready.forward) return forward();
    if (!can_forward && !can_backward) return {.step = StageStep::kDone, .version = version_};
    return {.wants_forward = can_forward, .wants_backward = can_backward};
  }
  if (can_forward) return ready.forward ? forward() : StageAction{.wants_forward = true};
  if (can_backward) return ready.backward ? backward() : StageAction{.wants_backward = true};
  return {.step = StageStep::kDone, .version = version_};
}

StageAction StageSchedule::forward() {
  const uint64_t micro_batch = forwards_++;
  ++started_;
  fresh_ = false;
  versions_[micro_batch % versions_.size()] = version_;
  return {.step = StageStep::kForward,
          .micro_batch = micro_batch,
          .version = version_,
          .slot = slot_of(version_)};
}

StageAction StageSchedule::backward() {
  const uint64_t micro_batch = backwards_++;
  const uint64_t used = versions_[micro_batch % versions_.size()];
  // The gradient goes into the next update, which turns version_ into version_ + 1.
  const auto delay = static_cast<uint32_t>(version_ - used);
  worst_delay_ = std::max(worst_delay_, delay);
  ++accumulated_;
  ++delays_.gradients;
  delays_.sum += delay;
  delays_.largest = std::max(delays_.largest, delay);
  return {.step = StageStep::kBackward,
          .micro_batch = micro_batch,
          .version = used,
          .slot = slot_of(used)};
}

StageAction StageSchedule::update() {
  ++version_;
  ++delays_.updates;
  fresh_ = true;
  StageAction action{.step = StageStep::kUpdate,
                     .version = version_,
                     .slot = slot_of(version_),
                     .delay = worst_delay_,
                     .gradients = accumulated_};
  accumulated_ = 0;
  worst_delay_ = 0;
  started_ = 0;
  return action;
}

Status StageSchedule::set_total(uint64_t total) {
  if (total != 0 && total < forwards_) {
    return {Code::kInvalidArgument,
            fmt::format("a total of {}, {} forwards are done", total, forwards_)};
  }
  config_.total = total;
  return {};
}

}  // namespace asyncmesh
