#include "averaging/mean_exchange.h"

#include <algorithm>
#include <cmath>

#include "averaging/geometry.h"

namespace asyncmesh {
namespace {

using kernels::Encoding;
using kernels::ParameterTable;
using kernels::TensorView;

// A sum of squares of finite floats is finite in double.
bool is_finite(const kernels::Table& kernels, const kernels::Execution& on,
               const ParameterTable& table) {
  double sums[kernels::kSumSlots];
  if (!kernels::lossless(table.storage)) {
    kernels.compare(table, table, sums, on);
    return std::isfinite(sums[2]);  // Comparison::first
  }
  return std::all_of(table.tensors, table.tensors + table.size, [&](const TensorView& tensor) {
    if (tensor.count == 0) return true;
    kernels.sum_of_squares(tensor.floats(), tensor.count, sums, on);
    return std::isfinite(sums[0]);
  });
}

float usable(float weight) { return std::isfinite(weight) && weight > 0.0F ? weight : 0.0F; }

}  // namespace

MeanExchange::MeanExchange(Mailbox& mailbox, const kernels::Table& kernels,
                           const kernels::Execution& on)
    : mailbox_(mailbox),
      kernels_(kernels),
      on_(on),
      queues_(mailbox),
      per_piece_(values_per_piece(Encoding::kFloat32, mailbox.payload_bytes())),
      takes_part_(mailbox.size(), 0),
      weights_(mailbox.size(), 0.0F),
      values_(mailbox.size(), nullptr),
      own_(per_piece_),
      mean_(per_piece_) {}

void MeanExchange::Table::take(const ParameterTable& table) {
  tensors.assign(table.tensors, table.tensors + table.size);
  storage = table.storage;
}

bool MeanExchange::Table::is(const ParameterTable& table) const {
  return storage == table.storage &&
         std::equal(tensors.begin(), tensors.end(), table.tensors, table.tensors + table.size,
                    [](const TensorView& left, const TensorView& right) {
                      return left.data == right.data && left.count == right.count;
                    });
}

std::byte* MeanExchange::Table::at(const Cursor& cursor) const {
  return static_cast<std::byte*>(tensors[cursor.tensor].data) +
         kernels::encoded_bytes(storage, cursor.offset);
}

void MeanExchange::Table::advance(Cursor& cursor, uint64_t count) const {
  cursor.offset += count;
  if (cursor.offset == tensors[cursor.tensor].count) cursor = {cursor.tensor + 1, 0};
}

bool MeanExchange::is(const Request& request) const {
  return in_.is(request.in) && out_.is(request.out) && request.purpose == purpose_;
}

bool MeanExchange::begin(const Request& request) {
  in_.take(request.in);
  out_.take(request.out);
  purpose_ = request.purpose;
  const bool finite = is_finite(kernels_, on_, request.in);
  weight_ = finite ? usable(request.weight) : 0.0F;
  total_ = 0;
  for (const TensorView& tensor : in_.tensors) total_ += tensor.count;
  pieces_ =
      pieces_of(total_, Encoding::kFloat32, static_cast<uint32_t>(per_piece_ * sizeof(float)));
  ++number_;
  posted_ = 0;
  done_ = 0;
  others_ = 0;
  post_at_ = own_at_ = write_at_ = Cursor{};
  for (uint32_t member = 0; member < mailbox_.size(); ++member) {
    takes_part_[member] = queues_.lost(member) ? 0 : 1;
    if (takes_part_[member] != 0 && member != mailbox_.self()) ++others_;
  }
  active_ = true;
  return finite;
}

Code MeanExchange::finish(Code code) {
  active_ = false;
  return code;
}

Code MeanExchange::step() {
  queues_.poll();
  discard_old();
  post_pieces();
  while (done_ < posted_) {
    const Code gathered = gather_piece();
    if (gathered == Code::kAgain) return Code::kAgain;
    if (gathered != Code::kOk) return finish(gathered);
    const Code averaged = average_piece();
    if (averaged != Code::kOk) return finish(averaged);
    for (uint32_t member = 0; member < mailbox_.size(); ++member) {
      if (member != mailbox_.self() && takes_part_[member] != 0) queues_.drop(member);
    }
    ++done_;
    post_pieces();
  }
  return done_ == pieces_ ? finish(Code::kOk) : Code::kAgain;
}

// What is left of a mean that ended early would fill the lanes.
void MeanExchange::discard_old() {
  for (uint32_t member = 0; member < mailbox_.size(); ++member) {
    while (queues_.depth(member) > 0 &&
           (takes_part_[member] == 0 || queues_.at(member, 0).meta.round < number_)) {
      queues_.discard(member);
    }
  }
}

void MeanExchange::post_pieces() {
  for (; posted_ < pieces_; ++posted_) {
    if (others_ == 0) continue;
    Mailbox::Post post;
    if (mailbox_.claim(&post) != Code::kOk) return;
    const uint64_t count = piece_values(posted_);
    const auto bytes = static_cast<uint32_t>(kernels::encoded_bytes(Encoding::kFloat32, count));
    read(post_at_, count, reinterpret_cast<float*>(post.values));
    mailbox_.commit(post,
                    {.kind = DeltaKind::kMean,
                     .piece = posted_,
                     .pieces = pieces_,
                     .round = number_,
                     .step = static_cast<uint64_t>(purpose_),
                     .count = count,
                     .weight = weight_},
                    bytes);
    bytes_posted_ += uint64_t{bytes} * others_;
  }
}

Code MeanExchange::check(uint32_t member, const DeltaMeta& meta, uint32_t bytes) {
  culprit_ = member;
  const bool right = meta.round == number_ && meta.piece == done_ && meta.pieces == pieces_ &&
                     meta.count == piece_values(done_) &&
                     meta.step == static_cast<uint64_t>(purpose_) &&
                     meta.encoding == Encoding::kFloat32 &&
                     bytes == kernels::encoded_bytes(Encoding::kFloat32, meta.count);
  return right ? Code::kOk : Code::kMismatch;
}

Code MeanExchange::gather_piece() {
  for (uint32_t member = 0; member < mailbox_.size(); ++member) {
    values_[member] = nullptr;
    weights_[member] = 0.0F;
    if (member == mailbox_.self() || takes_part_[member] == 0) continue;
    if (queues_.depth(member) == 0) {
      if (!queues_.lost(member)) return Code::kAgain;
      culprit_ = member;
      return Code::kPeerLost;
    }
    const Delta& delta = queues_.at(member, 0);
    if (const Code code = check(member, delta.meta, delta.bytes); code != Code::kOk) return code;
    values_[member] = delta.values;
    weights_[member] = usable(delta.meta.weight);
  }
  // Read again instead of kept: the piece of `in` is only overwritten below, after the average.
  read(own_at_, piece_values(done_), own_.data());
  values_[mailbox_.self()] = reinterpret_cast<const std::byte*>(own_.data());
  weights_[mailbox_.self()] = weight_;
  return Code::kOk;
}

Code MeanExchange::average_piece() {
  const uint64_t count = piece_values(done_);
  uint32_t contributors = 0;
  uint32_t last = 0;
  for (uint32_t member = 0; member < mailbox_.size(); ++member) {
    if (weights_[member] <= 0.0F) continue;
    ++contributors;
    last = member;
  }
  if (contributors == 0) return Code::kInvalidArgument;
  if (contributors == 1) {
    kernels_.dequantise(values_[last], count, Encoding::kFloat32, mean_.data(), on_);
  } else {
    uint64_t not_finite = 0;
    kernels_.average(
        {.values = values_.data(), .weights = weights_.data(), .members = mailbox_.size()}, count,
        mean_.data(), &not_finite, on_);
    // Senders vouch for their values; bytes that break that are a broken member's.
    if (not_finite != 0) return Code::kMismatch;
  }
  write(write_at_, count, mean_.data());
  return Code::kOk;
}

uint64_t MeanExchange::piece_values(uint32_t piece) const {
  return std::min<uint64_t>(per_piece_, total_ - piece * per_piece_);
}

// From and to fp32, encoding and decoding are the copies that every backend has.
void MeanExchange::read(Cursor& cursor, uint64_t count, float* out) const {
  while (count > 0) {
    const uint64_t some = std::min(count, in_.tensors[cursor.tensor].count - cursor.offset);
    if (some != 0) kernels_.dequantise(in_.at(cursor), some, in_.storage, out, on_);
    out += some;
    count -= some;
    in_.advance(cursor, some);
  }
}

void MeanExchange::write(Cursor& cursor, uint64_t count, const float* values) const {
  while (count > 0) {
    const uint64_t some = std::min(count, out_.tensors[cursor.tensor].count - cursor.offset);
    if (some != 0) {
      kernels_.quantise(values, some, {.encoding = out_.storage}, 0, out_.at(cursor), on_);
    }
    values += some;
    count -= some;
    out_.advance(cursor, some);
  }
}

}  // namespace asyncmesh
