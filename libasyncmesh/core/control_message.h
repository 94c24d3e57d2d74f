// What the cores of two ranks tell each other on the mesh's control sockets (reliable, in order,
// authenticated). Little endian; a message that does not parse exactly is ignored and counted.
//
//      LINK_HELLO     my end of our link is open in this epoch
//      LANE_WANT      I have a port that writes to you under this key: offer me a lane
//      LANE_OFFER     here is my end of the lane for your `instance`, in this epoch
//      LANE_REFUSED   your `instance` does not fit my port of that key
//      LANE_PROBE     tell me your credit
//      LANE_STATE     the answer
//      LANE_CLOSED    the writing or reading end of `instance` is gone
//      AVERAGER_HELLO collective creation of an averager: what all members must agree on
//
// `instance` names one writing end of the sender or receiver of the message, unique in its context:
// a port that is closed and opened again under the same key is never confused with its predecessor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace asyncmesh::core {

using transport::Epoch;
using transport::LaneId;
using transport::Rank;
using Body = std::vector<std::byte>;

enum class MessageType : uint16_t {
  kLinkHello = 1,
  kLaneWant = 2,
  kLaneOffer = 3,
  kLaneRefused = 4,
  kLaneProbe = 5,
  kLaneState = 6,
  kLaneClosed = 7,
  kAveragerHello = 8,
};

enum class PortKind : uint16_t { kChannel = 1, kMailbox = 2, kRounds = 3, kMeans = 4 };

// What names a port on both ends.
struct PortKey {
  PortKind kind = PortKind::kChannel;
  uint64_t tag = 0;
  auto operator<=>(const PortKey&) const = default;
};
std::string describe(const PortKey& key);  // "channel 5", "mailbox 2", ...

struct LinkHello {
  Epoch epoch = 0;
  std::string engine;  // name of the transport: both ends must use the same
  std::string reason;  // why this epoch, for people
};
struct LaneWant {
  PortKey key;
  uint32_t instance = 0;
  uint32_t slots = 0;
  uint32_t payload_bytes = 0;
};
struct LaneOffer {
  uint32_t instance = 0;
  Epoch epoch = 0;
  LaneId lane = 0;
  uint32_t slots = 0;
  transport::Sequence resume = 1;
  Body offer;
};
struct LaneRefused {
  uint32_t instance = 0;
  std::string text;
};
struct LaneProbe {
  uint32_t instance = 0;
  Epoch epoch = 0;
};
struct LaneStateReply {
  uint32_t instance = 0;
  Epoch epoch = 0;
  transport::Credit credit;
};
struct LaneClosed {
  uint32_t instance = 0;
  bool by_writer = true;
};
struct AveragerHello {
  uint64_t group = 0;
  bool withdrawn = false;  // the last one is void: its sender gave up waiting
  uint64_t fingerprint = 0;
  uint32_t lanes_from = 0;         // instances below are of the sender's earlier averagers
  std::vector<std::string> facts;  // "name=value", in a fixed order: names the difference
};

Body encode(const LinkHello& message);
Body encode(const LaneWant& message);
Body encode(const LaneOffer& message);
Body encode(const LaneRefused& message);
Body encode(const LaneProbe& message);
Body encode(const LaneStateReply& message);
Body encode(const LaneClosed& message);
Body encode(const AveragerHello& message);

// False: not such a message.
bool decode(std::span<const std::byte> body, LinkHello* out);
bool decode(std::span<const std::byte> body, LaneWant* out);
bool decode(std::span<const std::byte> body, LaneOffer* out);
bool decode(std::span<const std::byte> body, LaneRefused* out);
bool decode(std::span<const std::byte> body, LaneProbe* out);
bool decode(std::span<const std::byte> body, LaneStateReply* out);
bool decode(std::span<const std::byte> body, LaneClosed* out);
bool decode(std::span<const std::byte> body, AveragerHello* out);

// The control socket to every peer, as the links use it.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  // Queued, in order. Failure means that the peer is gone, which is told in another way.
  virtual void send_st(Rank to, MessageType type, const Body& body) = 0;
};

}  // namespace asyncmesh::core
