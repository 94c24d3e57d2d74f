// The tag engine's transport and link. See tag_lane.h for how frames travel.
//
// The reaper: whatever sits in UCX's queue of unexpected messages is stale (an old epoch, a
// duplicate) or foreign, and would stay there for good. While idle the transport takes such
// messages out and throws them away without moving their payload.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "transport/ucx/tag/tag_lane.h"
#include "transport/ucx/ucx_link.h"
#include "transport/ucx/ucx_transport.h"
#include "transport/ucx/ucx_worker.h"

namespace asyncmesh::transport {

class TagLink final : public UcxLink {
 public:
  using UcxLink::UcxLink;
  ~TagLink() override { close(); }
  Result<std::unique_ptr<Inbound>> open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                Sequence next, InboundSink& sink) override;
  Result<std::unique_ptr<Outbound>> open_outbound(LaneId lane, const LaneGeometry& geometry,
                                                  std::span<const std::byte> offer,
                                                  OutboundSink& sink) override;
  std::string describe() const override;
};

class TagTransport final : public Transport {
 public:
  TagTransport(std::unique_ptr<UcxWorker> worker, const UcxConfig& config);
  ~TagTransport() override;

  std::string_view name() const override { return "tag"; }
  Capabilities capabilities() const override { return {.has_event_fd = true}; }
  std::span<const std::byte> address() const override { return worker_->address(); }
  Result<std::unique_ptr<Link>> open_link(Rank peer, Epoch epoch,
                                          std::span<const std::byte> peer_address,
                                          LinkSink& sink) override;
  Result<uint32_t> register_staging(std::span<std::byte> memory) override {
    return worker_->register_staging(memory);
  }
  uint32_t progress() override;
  Nanoseconds next_deadline() const override { return kNever; }
  int event_fd() const override { return worker_->event_fd(); }
  bool arm() override;

  uint64_t reaped() const { return reaped_; }

 private:
  uint32_t reap();

  UcxConfig config_;
  uint32_t idle_rounds_ = 0;
  uint64_t reaped_ = 0;
  std::unique_ptr<UcxWorker> worker_;
};

}  // namespace asyncmesh::transport
