#include "tests/conformance/lane_side.h"

namespace asyncmesh::conformance {

using transport::Epoch;
using transport::LaneId;

void ControlQueue::push(ControlMessage message) {
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
}

bool ControlQueue::pop(ControlMessage* message_out) {
  const std::lock_guard lock(mutex_);
  if (messages_.empty()) return false;
  *message_out = std::move(messages_.front());
  messages_.pop_front();
  return true;
}

LaneSide::LaneSide(const LaneSideConfig& config, std::unique_ptr<transport::Transport> transport,
                   const Clock& clock, ControlQueue& in, ControlQueue& out)
    : config_(config),
      peer_(1 - config.self),
      clock_(clock),
      in_(in),
      out_(out),
      submissions_(4096),
      transport_(std::move(transport)) {
  for (PortConfig port : config_.ports) {
    port.outbound = {peer_};
    port.inbound = {peer_};
    ports_.push_back(std::make_unique<Port>(port, clock_, static_cast<Submitter&>(*this)));
    stagings_.push_back(ports_.back()->share_staging());
    auto id = transport_->register_staging(stagings_.back()->memory());
    if (!id.ok()) fail(id.status());
    staging_ids_.push_back(id.ok() ? id.value() : 0);
  }
}

uint64_t LaneSide::replayed() {
  uint64_t frames = 0;
  for (auto& port : ports_) frames += port->writer_st(0).counters_st().replayed;
  return frames;
}

void LaneSide::start(transport::Bytes peer_address) {
  peer_address_ = std::move(peer_address);
  enter(1);
}

void LaneSide::reset() { enter(static_cast<Epoch>(epoch_ + 1)); }

void LaneSide::enter(Epoch epoch) {
  for (auto& port : ports_) {
    port->writer_st(0).close_st();
    port->reader_st(0).close_st();
  }
  link_.reset();
  epoch_ = epoch;
  broken_ = false;
  auto link = transport_->open_link(peer_, epoch_, peer_address_, *this);
  if (!link.ok()) return fail(link.status());
  link_ = std::move(link.value());
  for (size_t i = 0; i < ports_.size(); ++i) {
    LaneReader& reader = ports_[i]->reader_st(0);
    const auto lane = static_cast<LaneId>(i);
    auto inbound = link_->open_inbound(lane, reader.geometry(), reader.resume_st(), reader);
    if (!inbound.ok()) return fail(inbound.status());
    const auto offer = inbound.value()->offer();
    ControlMessage message;
    message.kind = ControlMessage::Kind::kOffer;
    message.epoch = epoch_;
    message.lane = lane;
    message.offer.assign(offer.begin(), offer.end());
    message.resume = reader.resume_st();
    reader.open_st(std::move(inbound.value()));
    out_.push(std::move(message));
  }
}

void LaneSide::handle(const ControlMessage& message) {
  if (message.epoch < epoch_) return;  // of a link that is gone
  switch (message.kind) {
    case ControlMessage::Kind::kOffer:
      return accept_offer(message);
    case ControlMessage::Kind::kProbe: {
      ControlMessage answer;
      answer.kind = ControlMessage::Kind::kCredit;
      answer.epoch = message.epoch;
      answer.lane = message.lane;
      answer.credit = ports_[message.lane]->reader_st(0).credit_st();
      return out_.push(std::move(answer));
    }
    case ControlMessage::Kind::kCredit:
      if (message.epoch == epoch_) ports_[message.lane]->writer_st(0).on_credit(message.credit);
  }
}

void LaneSide::accept_offer(const ControlMessage& message) {
  if (message.epoch > epoch_) enter(message.epoch);
  if (link_ == nullptr) return;
  Port& port = *ports_[message.lane];
  auto outbound =
      link_->open_outbound(message.lane, port.geometry(), message.offer, port.writer_st(0));
  if (!outbound.ok()) {
    // The reader may be one epoch further already; then its offers of that epoch are on their way.
    broken_ = true;
    return;
  }
  const Code code = port.writer_st(0).open_st(std::move(outbound.value()), message.resume,
                                              staging_ids_[message.lane]);
  if (code != Code::kOk) fail(Status(code, "the writer refused the resume point"));
}

bool LaneSide::faulted(Nanoseconds now) {
  bool fault = broken_;
  for (size_t i = 0; i < ports_.size(); ++i) {
    LaneWriter& writer = ports_[i]->writer_st(0);
    LaneReader& reader = ports_[i]->reader_st(0);
    fault = fault || reader.fault_st(now, config_.timeout) != Code::kOk ||
            writer.fault_st() != Code::kOk;
    if (writer.state() != LaneState::kOpen) continue;
    fault = fault || writer.stalled_st(now, config_.timeout);
    if (fault || !writer.probe_due_st(now, config_.quiet)) continue;
    ControlMessage probe;
    probe.kind = ControlMessage::Kind::kProbe;
    probe.epoch = epoch_;
    probe.lane = static_cast<LaneId>(i);
    out_.push(std::move(probe));
  }
  return fault;
}

uint32_t LaneSide::step() {
  uint32_t events = 0;
  for (ControlMessage message; in_.pop(&message); ++events) handle(message);
  for (Submission submission; submissions_.pop(&submission); ++events)
    submission.port->execute_st(submission);
  events += transport_->progress();
  const Nanoseconds now = clock_.now();
  for (auto& port : ports_) events += port->reader_st(0).flush_credit_st(now, config_.quiet / 4);
  if (error_.empty() && faulted(now)) {
    reset();
    ++events;
  }
  return events;
}

void LaneSide::on_link_down(Rank peer, Epoch epoch, const Status& why) {
  if (why.ok() || peer != peer_)
    fail(Status(Code::kInternal, "on_link_down without a reason or for another peer"));
  if (epoch == epoch_) broken_ = true;
}

void LaneSide::submit(const Submission& submission) noexcept {
  if (!submissions_.push(submission)) error_ = "the submission ring is full";
}

void LaneSide::fail(const Status& status) {
  if (error_.empty()) error_ = status.text();
}

}  // namespace asyncmesh::conformance
