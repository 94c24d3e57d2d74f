// The blocking mean, and the end of averaging.
#include <fmt/format.h>

#include <cmath>

#include "averaging/averager.h"

namespace asyncmesh {
namespace {

Status check_mean(const kernels::ParameterTable& from, const kernels::ParameterTable& to,
                  float weight) {
  const std::span in(from.tensors, from.size);
  const std::span out(to.tensors, to.size);
  if (!std::isfinite(weight) || weight < 0.0F) {
    return {Code::kInvalidArgument, "weight is negative or not finite"};
  }
  if (!kernels::storable(from.storage) || !kernels::storable(to.storage)) {
    return {Code::kInvalidArgument, "no table is stored in a scaled encoding"};
  }
  if (in.size() != out.size()) {
    return {Code::kInvalidArgument,
            fmt::format("{} tensors in, {} tensors out", in.size(), out.size())};
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].count != out[i].count) {
      return {Code::kInvalidArgument, fmt::format("tensor {} has {} elements in, {} elements out",
                                                  i, in[i].count, out[i].count)};
    }
    if (in[i].count > 0 && (in[i].data == nullptr || out[i].data == nullptr)) {
      return {Code::kInvalidArgument, fmt::format("tensor {} is null", i)};
    }
  }
  return {};
}

}  // namespace

Status Averager::mean(const kernels::ParameterTable& in, const kernels::ParameterTable& out,
                      const MeanArgs& args) {
  if (phase_ == Phase::kFinishing || phase_ == Phase::kFinalMean) {
    return {Code::kInvalidState, "the averager is finishing"};
  }
  ASYNCMESH_RETURN_IF_ERROR(check_mean(in, out, args.weight));
  const MeanExchange::Request request{.in = in, .out = out, .weight = args.weight};
  const Nanoseconds began = clock_.now();
  if (exchange_.active()) {
    if (!exchange_.is(request)) {
      return {Code::kInvalidState, "another mean timed out and is not complete"};
    }
  } else {
    ASYNCMESH_RETURN_IF_ERROR(check_mean_lost());
    if (!exchange_.begin(request)) ++stats_.not_finite;
  }
  Status status = run_mean(args.deadline);
  stats_.mean_ns += clock_.now() - began;
  return status;
}

// News of a loss ends a mean before it begins; it takes its number all the same.
Status Averager::check_mean_lost() {
  exchange_.poll();
  for (uint32_t member = 0; member < means_.size(); ++member) {
    if (!exchange_.lost(member) || known_lost_[member] != 0) continue;
    known_lost_[member] = 1;
    exchange_.skip();
    return peer_lost(means_.rank_of(member)).annotate("mean");
  }
  return {};
}

Status Averager::run_mean(Nanoseconds deadline) {
  const uint64_t posted = exchange_.bytes_posted();
  Code code = exchange_.step();
  while (code == Code::kAgain) {
    const Code waited = waiter_.wait(deadline);
    // A finished member no longer resolves rounds, but their frames must not fill its slots.
    if (phase_ != Phase::kOpen) discard_rounds();
    code = exchange_.step();
    if (code == Code::kAgain && waited != Code::kOk) code = waited;
  }
  stats_.bytes_posted += exchange_.bytes_posted() - posted;
  stats_.frames_discarded = queues_.discarded() + exchange_.discarded();
  const Rank culprit = means_.rank_of(exchange_.culprit());
  switch (code) {
    case Code::kOk:
      ++stats_.means;
      return {};
    case Code::kPeerLost:
      known_lost_[exchange_.culprit()] = 1;
      return peer_lost(culprit).annotate("mean");
    case Code::kMismatch:
      return {code, fmt::format("rank {} is in another mean, or of another table", culprit)};
    case Code::kInvalidArgument:
      return {code, "the weights of all members are 0 (or no input is finite)"};
    default:
      return Status(code).annotate("mean");
  }
}

void Averager::discard_rounds() {
  queues_.poll();
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    while (queues_.depth(member) > 0) queues_.discard(member);
  }
}

Status Averager::post_finish(Nanoseconds deadline) {
  Mailbox::Post post;
  for (;;) {
    discard_rounds();
    if (receivers() == 0) return {};
    const Code code = rounds_.claim(&post);
    if (code == Code::kOk) break;
    if (code != Code::kAgain) return Status(code).annotate("finish");
    if (const Code waited = waiter_.wait(deadline); waited != Code::kOk) {
      return Status(waited).annotate("finish");
    }
  }
  rounds_.commit(post,
                 {.kind = DeltaKind::kFinish,
                  .round = next_round_,
                  .step = calls_,
                  .flags = DeltaFlag::kLastRound},
                 0);
  finish_posted_ = true;
  return {};
}

Status Averager::finish(const MeanArgs& args) {
  if (phase_ == Phase::kFinished) return {};
  if (phase_ == Phase::kOpen && exchange_.active()) {
    return {Code::kInvalidState, "a mean timed out and is not complete"};
  }
  const kernels::ParameterTable table = partition_.table();
  ASYNCMESH_RETURN_IF_ERROR(check_mean(table, table, args.weight));
  const Nanoseconds began = clock_.now();
  if (phase_ == Phase::kOpen) {
    stats_.rounds_discarded += open_.size();
    open_.clear();
    posted_ = false;
    phase_ = Phase::kFinishing;
  }
  Status status;
  if (phase_ == Phase::kFinishing) {
    if (!finish_posted_) status = post_finish(args.deadline);
    if (status.ok()) status = check_mean_lost();
    if (status.ok()) {
      phase_ = Phase::kFinalMean;
      const bool finite = exchange_.begin({.in = table,
                                           .out = table,
                                           .weight = args.weight,
                                           .purpose = MeanExchange::Purpose::kFinish});
      if (!finite) ++stats_.not_finite;
    }
  }
  if (status.ok()) status = run_mean(args.deadline);
  stats_.mean_ns += clock_.now() - began;
  if (status.ok()) {
    discard_rounds();
    phase_ = Phase::kFinished;
  } else if (!exchange_.active()) {
    // The final mean is over for good: the next finish begins another.
    phase_ = Phase::kFinishing;
  }
  return std::move(status).annotate("finish");
}

}  // namespace asyncmesh
