// One lane of one link epoch between a LaneWriter and a LaneReader, moved by hand: frames and
// credit stay in flight until the test delivers, drops, doubles, reorders or corrupts them.
//
// It keeps what transport.h promises, and checks what is promised to it: sequences are sent in
// order and each once, no slot is written before its previous frame was released. A violation makes
// `violations` non-zero. Slots live as long as the Inbound, so that a sanitizer sees a lent slot
// that was given up too early. After construction nothing allocates.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace asyncmesh::test {

class FakeWire {
 public:
  struct State;

  // Frames from `next` on will be sent. `sent_at_once`: on_sent comes from inside send, else when
  // the frame is delivered or dropped.
  FakeWire(const transport::LaneGeometry& geometry, transport::Sequence next, bool sent_at_once);
  ~FakeWire();

  std::unique_ptr<transport::Inbound> make_inbound(transport::InboundSink& sink);
  std::unique_ptr<transport::Outbound> make_outbound(transport::OutboundSink& sink);

  uint32_t frames() const;  // in flight, 0 the oldest
  transport::Sequence sequence(uint32_t index) const;
  void deliver(uint32_t index);  // out of order with index > 0
  void drop(uint32_t index);
  bool duplicate(uint32_t index);              // one more copy, at the end; false: no room
  void corrupt(uint32_t index, uint32_t bit);  // of the copy in flight
  bool credit() const;                         // one is in flight
  void deliver_credit();
  void drop_credit();
  uint32_t pump();  // everything, in order; returns events

  uint32_t violations() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace asyncmesh::test
