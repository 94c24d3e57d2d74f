// What the application sees of a lane, and what it is lent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lane/frame.h"
#include "transport/transport.h"

namespace asyncmesh {

using transport::Rank;
using transport::Sequence;

// kConnecting and kOpen may alternate (a link is reset); kDead is for good.
enum class LaneState : uint32_t { kConnecting, kOpen, kDead };

// One word, since it is copied with every frame.
struct alignas(uint64_t) Origin {
  uint32_t lane = 0;  // index into PortConfig::inbound
  Rank source = 0;
};

// A frame that was received: its slot is lent to the application until Port::release.
struct Received {
  FrameHeader header;                  // validated copy
  const std::byte* payload = nullptr;  // header.bytes bytes, 64-byte aligned; lent until release
  Origin origin;
  Sequence sequence = 0;
};

}  // namespace asyncmesh
