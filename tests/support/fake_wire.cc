#include "support/fake_wire.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace asyncmesh::test {

using transport::Credit;
using transport::Sequence;

struct FakeWire::State {
  struct InFlight {
    Sequence sequence = 0;
    uint32_t bytes = 0;
    bool copy = false;  // a duplicate: on_sent is the original's
    std::vector<std::byte> data;
  };

  transport::LaneGeometry geometry;
  bool sent_at_once = true;
  std::vector<InFlight> frames;  // the first `count` are in flight
  uint32_t count = 0;
  std::optional<Credit> credit;
  Sequence expected = 1;           // next to be sent
  Sequence released = 0;           // slots of this epoch up to here are free again
  std::vector<Sequence> arrived;   // by slot: whose frame it holds
  std::vector<std::byte> scratch;  // where frames go whose slot is taken
  std::byte* slots = nullptr;      // the Inbound's, while it listens
  transport::InboundSink* inbound = nullptr;
  transport::OutboundSink* outbound = nullptr;
  uint32_t violations = 0;

  void remove(uint32_t index) {
    const InFlight gone{frames[index].sequence, 0, frames[index].copy, {}};
    const auto at = frames.begin() + index;
    std::rotate(at, at + 1, frames.begin() + count);
    --count;
    if (!gone.copy && !sent_at_once && outbound != nullptr) outbound->on_sent(gone.sequence);
  }
};

namespace {

class FakeInbound final : public transport::Inbound {
 public:
  FakeInbound(std::shared_ptr<FakeWire::State> state, transport::InboundSink& sink)
      : state_(std::move(state)),
        slots_(std::make_unique<std::byte[]>(state_->geometry.slots * state_->geometry.stride())) {
    state_->slots = slots_.get();
    state_->inbound = &sink;
  }
  ~FakeInbound() override { stop(); }

  std::span<const std::byte> offer() const override { return {}; }
  void release(Sequence sequence) override {
    if (sequence != state_->released + 1) ++state_->violations;
    state_->released = sequence;
  }
  Code send_credit(const Credit& credit) override {
    if (state_->credit.has_value()) return Code::kAgain;
    state_->credit = credit;
    return Code::kOk;
  }
  void stop() override {
    state_->slots = nullptr;
    state_->inbound = nullptr;
  }

 private:
  std::shared_ptr<FakeWire::State> state_;
  std::unique_ptr<std::byte[]> slots_;
};

class FakeOutbound final : public transport::Outbound {
 public:
  FakeOutbound(std::shared_ptr<FakeWire::State> state, transport::OutboundSink& sink)
      : state_(std::move(state)) {
    state_->outbound = &sink;
  }
  ~FakeOutbound() override { state_->outbound = nullptr; }

  Code send(Sequence sequence, const transport::Frame& frame) override {
    if (sequence != state_->expected || state_->count == state_->frames.size() ||
        frame.bytes > state_->geometry.slot_bytes) {
      ++state_->violations;
      return Code::kLinkError;
    }
    state_->expected = sequence + 1;
    FakeWire::State::InFlight& place = state_->frames[state_->count++];
    place.sequence = sequence;
    place.bytes = frame.bytes;
    place.copy = false;
    std::memcpy(place.data.data(), frame.data, frame.bytes);
    if (state_->sent_at_once) state_->outbound->on_sent(sequence);
    return Code::kOk;
  }

 private:
  std::shared_ptr<FakeWire::State> state_;
};

}  // namespace

FakeWire::FakeWire(const transport::LaneGeometry& geometry, Sequence next, bool sent_at_once)
    : state_(std::make_shared<State>()) {
  state_->geometry = geometry;
  state_->sent_at_once = sent_at_once;
  state_->expected = next;
  state_->released = next - 1;
  state_->arrived.resize(geometry.slots, 0);
  state_->scratch.resize(geometry.slot_bytes);
  state_->frames.resize(size_t{4} * geometry.slots);
  for (State::InFlight& frame : state_->frames) frame.data.resize(geometry.slot_bytes);
}

FakeWire::~FakeWire() = default;

std::unique_ptr<transport::Inbound> FakeWire::make_inbound(transport::InboundSink& sink) {
  return std::make_unique<FakeInbound>(state_, sink);
}

std::unique_ptr<transport::Outbound> FakeWire::make_outbound(transport::OutboundSink& sink) {
  return std::make_unique<FakeOutbound>(state_, sink);
}

uint32_t FakeWire::frames() const { return state_->count; }

Sequence FakeWire::sequence(uint32_t index) const { return state_->frames[index].sequence; }

void FakeWire::deliver(uint32_t index) {
  State& state = *state_;
  const State::InFlight& frame = state.frames[index];
  if (state.inbound == nullptr) {
    state.remove(index);
    return;
  }
  const Sequence sequence = frame.sequence;
  const uint32_t bytes = frame.bytes;
  if (!frame.copy && sequence > state.released + state.geometry.slots) ++state.violations;
  // Of several copies the first one fills the slot; the others, and those of a frame that was
  // released, must not touch it: it is lent, or a later frame's.
  std::byte* slot = state.scratch.data();
  Sequence& arrived = state.arrived[sequence % state.geometry.slots];
  if (sequence > state.released && sequence > arrived) {
    arrived = sequence;
    slot = state.slots + (sequence % state.geometry.slots) * state.geometry.stride() +
           transport::kFrameLead;
  }
  std::memcpy(slot, frame.data.data(), bytes);
  state.remove(index);
  state.inbound->on_frame(sequence, slot, bytes);
}

void FakeWire::drop(uint32_t index) { state_->remove(index); }

bool FakeWire::duplicate(uint32_t index) {
  State& state = *state_;
  if (state.count >= 3 * state.geometry.slots) return false;
  State::InFlight& copy = state.frames[state.count++];
  const State::InFlight& frame = state.frames[index];
  copy.sequence = frame.sequence;
  copy.bytes = frame.bytes;
  copy.copy = true;
  std::memcpy(copy.data.data(), frame.data.data(), frame.bytes);
  return true;
}

void FakeWire::corrupt(uint32_t index, uint32_t bit) {
  State::InFlight& frame = state_->frames[index];
  const uint32_t at = bit % (frame.bytes * 8);
  frame.data[at / 8] ^= std::byte{1} << (at % 8);
}

bool FakeWire::credit() const { return state_->credit.has_value(); }

void FakeWire::deliver_credit() {
  const std::optional<Credit> credit = std::exchange(state_->credit, std::nullopt);
  if (credit.has_value() && state_->outbound != nullptr) state_->outbound->on_credit(*credit);
}

void FakeWire::drop_credit() { state_->credit.reset(); }

uint32_t FakeWire::pump() {
  uint32_t events = 0;
  while (frames() > 0) {
    deliver(0);
    ++events;
  }
  if (credit()) {
    deliver_credit();
    ++events;
  }
  return events;
}

uint32_t FakeWire::violations() const { return state_->violations; }

}  // namespace asyncmesh::test
