// Lanes of the tag engine. One frame is one tagged message; its tag names lane, epoch and sequence:
//
//   63        48 47        32 31                            0
//   | lane id   | link epoch | low half of the sequence     |      matched exactly
//
// The reader keeps one receive posted per slot, for the exact sequence that the slot waits for. So
// a frame that is stale or sent twice matches nothing, while with the slot's number in place of the
// sequence it would land in a later receive. `release` posts the slot's next receive before the
// credit that allows its frame can leave, hence no frame of ours is ever unexpected.
//
// UCX may write into a slot until its receive completed or was cancelled. A receive whose
// rendezvous has begun cannot be cancelled, so slots and receives live in a Lingering object that
// the connection keeps, too, until UCX is done with it.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/large_vector.h"
#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/ucx_lane.h"

namespace asyncmesh::transport {

ucp_tag_t make_tag(LaneId lane, Epoch epoch, Sequence sequence);

class TagInbound;
class TagLink;

// The slots of a lane and the receives posted into them.
class TagReceives final : public Lingering {
 public:
  TagReceives(const LaneGeometry& geometry, size_t request_bytes, TagInbound* lane);

  // UCS_INPROGRESS: posted. UCS_OK: complete already, without a call of the lane.
  ucs_status_t post(ucp_worker_h worker, Sequence sequence, ucp_tag_t tag);
  void cancel_all(ucp_worker_h worker);  // what can be cancelled is complete when this returns
  void disown() { lane_ = nullptr; }
  std::byte* slot(Sequence sequence) {
    return slots_.data() + (sequence & mask_) * geometry_.stride() + kFrameLead;
  }
  // True once per frame: it lies in its slot, `bytes_out` long.
  bool take(Sequence sequence, uint32_t* bytes_out);

 private:
  struct Receive {
    TagReceives* owner = nullptr;
    Sequence sequence = 0;
    bool posted = false;
    bool complete = false;  // and not taken
    ucp_tag_recv_info_t info{};
  };
  void* request(size_t index) {
    return requests_.data() + index * request_stride_ + request_bytes_;
  }
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                          void* receive);

  LaneGeometry geometry_;
  TagInbound* lane_;
  size_t mask_;
  size_t request_bytes_;
  size_t request_stride_;
  LargeVector<std::byte> slots_;
  LargeVector<std::byte> requests_;  // UCP's part is below the pointer it gets
  std::vector<Receive> receives_;    // by sequence % slots
};

class TagInbound final : public UcxInbound {
 public:
  TagInbound(TagLink& link, LaneId lane, const LaneGeometry& geometry, InboundSink& sink);
  ~TagInbound() override { TagInbound::detach(); }
  Status open(Sequence next);  // posts the first receives

  void release(Sequence sequence) override;
  void stop() override;
  void detach() override;
  // Delivers what is complete, in order: a small frame overtakes a rendezvous.
  uint32_t poll() override;
  void received();  // one more is complete
  void receive_failed(ucs_status_t status);

 private:
  ucs_status_t post(Sequence sequence);

  TagLink* tag_link_;  // valid while link_ is
  bool stopped_ = false;
  Sequence next_ = 1;  // to be delivered
  std::shared_ptr<TagReceives> receives_;
};

// What a send request carries in the private bytes that UCP gives it.
struct TagRequest {
  Sequence sequence;
};

// Sends in flight.
class TagSends final : public Lingering {
 public:
  explicit TagSends(OutboundSink* sink) : sink_(sink) {}
  void disown() { sink_ = nullptr; }
  // UCS_OK: the frame has left. UCS_INPROGRESS: on_sent comes later.
  ucs_status_t send(ucp_ep_h endpoint, ucp_tag_t tag, Sequence sequence, const Frame& frame,
                    ucp_mem_h memory);

 private:
  static void on_sent(void* request, ucs_status_t status, void* self);
  OutboundSink* sink_;
};

class TagOutbound final : public UcxOutbound {
 public:
  TagOutbound(UcxLink& link, LaneId lane, const LaneGeometry& geometry, OutboundSink& sink);
  ~TagOutbound() override { TagOutbound::detach(); }
  Code send(Sequence sequence, const Frame& frame) override;
  void detach() override;

 private:
  std::shared_ptr<TagSends> sends_;
};

}  // namespace asyncmesh::transport
