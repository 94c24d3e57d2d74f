// Lanes of the rma engine: the writer puts a frame into the reader's arena, then its commit word;
// the reader polls the word.
//
// What orders frame before commit:
//   * direct stores (shared memory, the default): the writer maps the arena, copies the frame with
//   memcpy and stores the word with
//     release; it pairs with the acquire load in RmaInbound::poll. The same cache-coherent memory
//     under two mappings, so the C++ rule is all that is needed on every architecture.
//   * puts (rc, or shared memory when direct stores are off): one rail, hence one queue pair, which
//   delivers in order. A frame put
//     that completed in the call is followed by UCX's fence in its weak mode (a memory barrier for
//     shared memory, a flag in the next request for rc; it never waits) and the put of the word. A
//     frame put that returned a request is followed by its word from the completion callback; words
//     of later frames then wait for it, so that commits leave in order.
//
// The commit words of frames in flight must stay unchanged until their put is done, so they have a
// place per slot.
//
// Credit goes the other way, through the same arena (rma_credit.h) if the writer maps it, else as a
// message. The first is a message always, which a writer that maps the arena answers by asking for
// the arena: UCX looks only after peers that have answered it once, and a lane that never needed an
// answer would not notice the end of its peer. A lane changes over once, and never back: a message
// that arrives after a credit from the arena is older, and dropped.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/rma/rma_arena.h"
#include "transport/ucx/ucx_lane.h"

namespace asyncmesh::transport {

class RmaLink;

class RmaInbound final : public UcxInbound {
 public:
  RmaInbound(RmaLink& link, LaneId lane, const LaneGeometry& geometry, InboundSink& sink);
  ~RmaInbound() override { RmaInbound::detach(); }
  Status open(Sequence next);

  void release(Sequence sequence) override;
  Code send_credit(const Credit& credit) override;
  void stop() override { awaited_word_ = nullptr; }
  void detach() override;
  // poll would find a frame. Equality, never order: any other value is another lap, epoch or
  // garbage.
  bool ready() const {
    // Pairs with the release in RmaOutbound::send.
    return awaited_word_ != nullptr &&
           std::atomic_ref(*awaited_word_).load(std::memory_order_acquire) == awaited_value_;
  }
  uint32_t poll() override;  // looks at the next expected frame's word only

 private:
  RmaLink* rma_link_;  // valid while link_ is
  void expect(Sequence sequence);

  RmaLayout layout_;
  Sequence next_ = 1;
  uint64_t* awaited_word_ = nullptr;  // commit word of `next_`; null: closed or stopped
  uint64_t awaited_value_ = 0;
  RmaCreditBlock* credit_block_ = nullptr;
  uint64_t credits_stored_ = 0;  // here, for the writer could change the arena's
  UcpMemory arena_;
};

// Puts in flight.
class RmaPuts final : public Lingering {
 public:
  struct Target {
    ucp_worker_h worker = nullptr;
    uint64_t address = 0;  // of the arena, in the reader's process
    UniqueUcpRkey rkey;
  };
  RmaPuts(RmaLink* link, Target target, const LaneGeometry& geometry, OutboundSink* sink);
  void disown();
  void drop_handles() override { target_.rkey.reset(); }
  ucp_rkey_h rkey() const { return target_.rkey.get(); }
  // Any error is the link's end.
  ucs_status_t send(ucp_ep_h endpoint, Sequence sequence, uint64_t word, const Frame& frame,
                    ucp_mem_h memory);

 private:
  struct Put {
    RmaPuts* owner = nullptr;
    uint64_t word = 0;
    bool landed = false;  // the frame may be committed
  };
  ucs_status_t put(const void* data, size_t bytes, size_t offset, ucp_mem_h memory,
                   ucp_send_nbx_callback_t done, void* context);
  ucs_status_t commit_landed();
  static void on_frame_put(void* request, ucs_status_t status, void* put);
  static void on_word_put(void* request, ucs_status_t status, void* self);

  RmaLink* link_;
  UcxDomain& domain_;
  Target target_;
  RmaLayout layout_;
  OutboundSink* sink_;
  ucp_ep_h endpoint_ = nullptr;
  size_t mask_;
  Sequence next_commit_ = 0;  // 0: nothing sent yet
  Sequence last_sent_ = 0;
  std::vector<Put> puts_;  // by sequence % slots
};

class RmaOutbound final : public UcxOutbound {
 public:
  RmaOutbound(RmaLink& link, LaneId lane, const LaneGeometry& geometry, OutboundSink& sink);
  ~RmaOutbound() override { RmaOutbound::detach(); }
  Status open(const ParsedOffer& offer, bool direct_stores);

  Code send(Sequence sequence, const Frame& frame) override;
  void credit(const Credit& credit) override;
  void detach() override;
  bool reads_credit() const { return credit_block_ != nullptr; }
  // poll_credit would find one.
  bool credit_ready() const {
    return credit_block_ != nullptr && credit_block_->number() != credits_seen_;
  }
  void poll_credit();  // credit_ready() holds; several credits may have become one

 private:
  void store_in_steps(Sequence sequence, const Frame& frame, std::byte* slot);
  Code put(Sequence sequence, const Frame& frame);

  RmaLink* rma_link_;  // valid while link_ is
  RmaLayout layout_;
  std::byte* mapped_ = nullptr;  // the reader's arena in this process; null: through puts
  RmaCreditBlock* credit_block_ = nullptr;  // of `mapped_`; null: credit comes as messages
  uint64_t credits_seen_ = 0;
  std::shared_ptr<RmaPuts> puts_;
};

}  // namespace asyncmesh::transport
