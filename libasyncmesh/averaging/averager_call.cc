// One call: the order of things in the two modes, waiting, and who was lost.
#include <fmt/format.h>

#include <cmath>

#include "averaging/averager.h"

namespace asyncmesh {

Status Averager::call(const CallArgs& args, CallResult* result_out) {
  if (phase_ != Phase::kOpen) return {Code::kInvalidState, "the averager has finished"};
  if (!std::isfinite(args.weight) || args.weight < 0.0F) {
    return {Code::kInvalidArgument, "weight is negative or not finite"};
  }
  const Nanoseconds began = clock_.now();
  if (!posted_) result_ = {};
  Status status = config_.mode == AveragingMode::kDeterministic ? call_deterministic(args)
                                                                : call_opportunistic(args);
  stats_.time_ns += clock_.now() - began;
  if (!status.ok()) return status;
  ++stats_.calls;
  stats_.wait_ns += result_.wait_ns;
  stats_.frames_discarded = queues_.discarded() + exchange_.discarded();
  result_.open = open_.size();
  if (result_out != nullptr) *result_out = result_;
  return {};
}

Status Averager::call_opportunistic(const CallArgs& args) {
  queues_.poll();
  ASYNCMESH_RETURN_IF_ERROR(check_lost());
  while (!open_.empty() && resolve(args) != Resolution::kWaiting) {
  }
  if (open_.full() || !start(args)) {
    ++result_.skipped;
    ++stats_.rounds_skipped;
  }
  ++calls_;
  return {};
}

Status Averager::call_deterministic(const CallArgs& args) {
  queues_.poll();
  ASYNCMESH_RETURN_IF_ERROR(check_lost());
  if (!posted_) {
    while (!start(args)) ASYNCMESH_RETURN_IF_ERROR(pause(args.deadline));
    posted_ = true;
  }
  while (!open_.empty() && calls_ - open_.front().call >= config_.window) {
    if (resolve(args) == Resolution::kWaiting) ASYNCMESH_RETURN_IF_ERROR(pause(args.deadline));
  }
  posted_ = false;
  ++calls_;
  return {};
}

// Waits for news, takes it, and looks for losses.
Status Averager::pause(Nanoseconds deadline) {
  const Nanoseconds began = clock_.now();
  const Code code = waiter_.wait(deadline);
  result_.wait_ns += clock_.now() - began;
  queues_.poll();
  ASYNCMESH_RETURN_IF_ERROR(check_lost());
  if (code == Code::kOk) return {};
  return Status(code).annotate("averager");
}

Status Averager::check_lost() {
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    if (!queues_.lost(member)) continue;
    const bool news = known_lost_[member] == 0;
    known_lost_[member] = 1;
    queues_.drop_all(member);
    if (news || config_.mode == AveragingMode::kDeterministic) {
      return peer_lost(rounds_.rank_of(member));
    }
  }
  return {};
}

Status Averager::peer_lost(Rank rank) {
  lost_rank_ = rank;
  return {Code::kPeerLost, fmt::format("rank {} was lost", rank)};
}

}  // namespace asyncmesh
