// The tag engine's transport and link. See tag_lane.h for how frames travel.
//
// The reaper: whatever sits in UCX's queue of unexpected messages is foreign, or was on its way to
// a lane that closed, and would stay there as long as the link. While idle the link takes such
// messages out and throws them away without moving their payload.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "transport/ucx/tag/tag_lane.h"
#include "transport/ucx/ucx_engine.h"
#include "transport/ucx/ucx_link.h"

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

  uint32_t progress_frames();
  bool arm();
  void note_deferred() { deferred_ = true; }  // some lane has a frame that UCX will not announce

 private:
  uint32_t reap();

  bool deferred_ = false;
  uint32_t idle_rounds_ = 0;
};

class TagTransport final : public UcxTransport {
 public:
  using UcxTransport::UcxTransport;
  std::string_view name() const override { return "tag"; }
  Capabilities capabilities() const override { return {.has_event_fd = true}; }
  Result<std::unique_ptr<Link>> open_link(Rank peer, Epoch epoch,
                                          std::span<const std::byte> peer_address,
                                          LinkSink& sink) override;
  uint32_t progress() override;
  bool arm() override;
};

}  // namespace asyncmesh::transport
