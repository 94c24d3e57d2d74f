// Starting a round: sample, pack, post. All frames of a round are posted, or none.
#include <algorithm>
#include <cstring>

#include "averaging/averager.h"
#include "averaging/geometry.h"
#include "averaging/piece_tasks.h"
#include "averaging/rounding.h"

namespace asyncmesh {

bool Averager::alone() const {
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    if (member != rounds_.self() && queues_.contributes(member, next_round_)) return false;
  }
  return true;
}

// Members that a post goes to.
uint32_t Averager::receivers() const {
  uint32_t count = 0;
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    if (member == rounds_.self()) continue;
    if (!queues_.finished(member) && !queues_.lost(member)) ++count;
  }
  return count;
}

// A member whose oldest frame is of a later round will never send this one: go to where it is.
void Averager::skip_ahead() {
  for (uint32_t member = 0; member < rounds_.size(); ++member) {
    if (queues_.depth(member) == 0) continue;
    next_round_ = std::max(next_round_, queues_.at(member, 0).meta.round);
  }
}

bool Averager::claim_pieces(uint32_t pieces) {
  for (uint32_t i = 0; i < pieces; ++i) {
    if (rounds_.claim(&posts_[i]) == Code::kOk) continue;
    while (i > 0) rounds_.abandon(posts_[--i]);
    return false;
  }
  return true;
}

bool Averager::start(const CallArgs& args) {
  if (open_.empty()) skip_ahead();
  if (alone()) {
    ++next_round_;
    ++result_.started;
    ++stats_.rounds_started;
    ++stats_.too_few;
    return true;
  }
  Round& round = open_.next();
  round.subset = partition_.subset(next_round_);
  round.elements = partition_.elements_of(round.subset);
  round.pieces = pieces_of(round.elements, config_.encoding, rounds_.payload_bytes());
  if (!claim_pieces(round.pieces)) return false;

  round.number = next_round_++;
  round.weight = args.weight;
  round.call = calls_;
  round.writes_before = stats_.rounds_applied;
  round.started = clock_.now();
  const bool lossy = !kernels::lossless(config_.encoding);
  const kernels::Wire wire{.encoding = config_.encoding,
                           .rounding = config_.rounding,
                           .seed = rounding_seed(config_, round.number, own_rank())};
  kernels_.partition_pack(partition_.table(), round.subset, wire, round.snapshot,
                          lossy ? round.own : nullptr, on_);
  post(round);
  open_.push();
  ++result_.started;
  ++stats_.rounds_started;
  return true;
}

void Averager::post(const Round& round) {
  const uint64_t per_piece = values_per_piece(config_.encoding, rounds_.payload_bytes());
  const uint64_t posted_to = receivers();
  const auto values_of = [&](uint32_t piece) {
    return std::min(per_piece, round.elements - piece * per_piece);
  };
  const auto copy = [&](uint32_t piece, uint32_t) {
    std::memcpy(posts_[piece].values,
                round.own + kernels::encoded_bytes(config_.encoding, piece * per_piece),
                kernels::encoded_bytes(config_.encoding, values_of(piece)));
  };
  // Alone, each piece is on its way while the next one is copied.
  const bool spread = piece_tasks(on_.workers, round.pieces) > 1;
  if (spread) for_each_piece(on_.workers, round.pieces, copy);
  for (uint32_t piece = 0; piece < round.pieces; ++piece) {
    const uint64_t count = values_of(piece);
    const size_t bytes = kernels::encoded_bytes(config_.encoding, count);
    if (!spread) copy(piece, 0);
    rounds_.commit(posts_[piece],
                   {.kind = DeltaKind::kRound,
                    .encoding = config_.encoding,
                    .piece = piece,
                    .pieces = round.pieces,
                    .round = round.number,
                    .step = calls_,
                    .count = count,
                    .weight = round.weight},
                   static_cast<uint32_t>(bytes));
    result_.bytes_posted += bytes * posted_to;
    stats_.bytes_posted += bytes * posted_to;
  }
}

}  // namespace asyncmesh
