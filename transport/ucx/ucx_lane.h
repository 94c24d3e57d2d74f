// What the lanes of both engines share: their place in a link, and credit.
//
// A lane's object may outlive its link. `detach` then has ended all that needed the link: nothing
// is delivered, sends and credits answer kLinkError, slots that were delivered stay readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/transport.h"
#include "transport/ucx/ucx_control.h"
#include "transport/ucx/ucx_link.h"

namespace asyncmesh::transport {

class UcxInbound : public Inbound {
 public:
  UcxInbound(UcxLink& link, LaneId lane, const LaneGeometry& geometry, InboundSink& sink);
  Code send_credit(const Credit& credit) override;
  std::span<const std::byte> offer() const override { return offer_; }

  // Delivers frames that are there without an event of UCX; returns their number.
  virtual uint32_t poll() = 0;
  LaneId lane() const { return lane_; }
  virtual void detach();  // derived classes call it in their destructors
  void connected();       // sends the credit that had to wait for it

 protected:
  UcxOffer lane_offer() const;

  UcxLink* link_;  // null once detached
  LaneId lane_;
  LaneGeometry geometry_;
  InboundSink& sink_;
  Bytes offer_;

 private:
  bool credit_owed_ = false;
  Credit owed_credit_;
  std::shared_ptr<ControlSlot> credit_slot_;
};

class UcxOutbound : public Outbound {
 public:
  UcxOutbound(UcxLink& link, LaneId lane, const LaneGeometry& geometry, OutboundSink& sink);

  LaneId lane() const { return lane_; }
  virtual void credit(const Credit& credit) { sink_.on_credit(credit); }  // came as a message
  virtual void detach();                                                  // likewise

 protected:
  UcxLink* link_;  // null once detached
  LaneId lane_;
  LaneGeometry geometry_;
  OutboundSink& sink_;
};

// What an offer for this lane must say.
UcxOffer expected_offer(UcxEngine engine, Epoch epoch, LaneId lane, const LaneGeometry& geometry);

}  // namespace asyncmesh::transport
