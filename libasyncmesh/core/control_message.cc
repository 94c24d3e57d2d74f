#include "core/control_message.h"

#include <fmt/format.h>

#include "base/byte_io.h"

namespace asyncmesh::core {
namespace {

constexpr uint32_t kMaxFacts = 256;

void put(ByteWriter& out, const PortKey& key) {
  out.u16(static_cast<uint16_t>(key.kind));
  out.u64(key.tag);
}

bool get(ByteReader& in, PortKey* key) {
  const uint16_t kind = in.u16();
  key->tag = in.u64();
  if (kind < 1 || kind > 4) return false;
  key->kind = static_cast<PortKind>(kind);
  return true;
}

}  // namespace

std::string describe(const PortKey& key) {
  switch (key.kind) {
    case PortKind::kChannel:
      return fmt::format("channel {}", key.tag);
    case PortKind::kMailbox:
      return fmt::format("mailbox {}", key.tag);
    case PortKind::kRounds:
      return fmt::format("rounds of averager group {}", key.tag);
    case PortKind::kMeans:
      return fmt::format("means of averager group {}", key.tag);
  }
  return "port";
}

Body encode(const LinkHello& message) {
  Body body;
  ByteWriter out(body);
  out.u16(message.epoch);
  out.text(message.engine);
  out.text(message.reason);
  return body;
}

bool decode(std::span<const std::byte> body, LinkHello* out) {
  ByteReader in(body);
  out->epoch = in.u16();
  out->engine = in.text();
  out->reason = in.text();
  return in.done() && out->epoch != 0;
}

Body encode(const LaneWant& message) {
  Body body;
  ByteWriter out(body);
  put(out, message.key);
  out.u32(message.instance);
  out.u32(message.slots);
  out.u32(message.payload_bytes);
  return body;
}

bool decode(std::span<const std::byte> body, LaneWant* out) {
  ByteReader in(body);
  const bool known = get(in, &out->key);
  out->instance = in.u32();
  out->slots = in.u32();
  out->payload_bytes = in.u32();
  return known && in.done() && out->instance != 0;
}

Body encode(const LaneOffer& message) {
  Body body;
  ByteWriter out(body);
  out.u32(message.instance);
  out.u16(message.epoch);
  out.u16(message.lane);
  out.u32(message.slots);
  out.u64(message.resume);
  out.blob(message.offer);
  return body;
}

bool decode(std::span<const std::byte> body, LaneOffer* out) {
  ByteReader in(body);
  out->instance = in.u32();
  out->epoch = in.u16();
  out->lane = in.u16();
  out->slots = in.u32();
  out->resume = in.u64();
  const std::span<const std::byte> offer = in.blob();
  out->offer.assign(offer.begin(), offer.end());
  return in.done() && out->resume >= 1 && out->resume <= transport::kSequenceMask;
}

Body encode(const LaneRefused& message) {
  Body body;
  ByteWriter out(body);
  out.u32(message.instance);
  out.text(message.text);
  return body;
}

bool decode(std::span<const std::byte> body, LaneRefused* out) {
  ByteReader in(body);
  out->instance = in.u32();
  out->text = in.text();
  return in.done();
}

Body encode(const LaneProbe& message) {
  Body body;
  ByteWriter out(body);
  out.u32(message.instance);
  out.u16(message.epoch);
  return body;
}

bool decode(std::span<const std::byte> body, LaneProbe* out) {
  ByteReader in(body);
  out->instance = in.u32();
  out->epoch = in.u16();
  return in.done();
}

Body encode(const LaneStateReply& message) {
  Body body;
  ByteWriter out(body);
  out.u32(message.instance);
  out.u16(message.epoch);
  out.u64(message.credit.received);
  out.u64(message.credit.taken);
  out.u64(message.credit.released);
  return body;
}

bool decode(std::span<const std::byte> body, LaneStateReply* out) {
  ByteReader in(body);
  out->instance = in.u32();
  out->epoch = in.u16();
  out->credit.received = in.u64();
  out->credit.taken = in.u64();
  out->credit.released = in.u64();
  return in.done();
}

Body encode(const LaneClosed& message) {
  Body body;
  ByteWriter out(body);
  out.u32(message.instance);
  out.u8(message.by_writer ? 1 : 0);
  return body;
}

bool decode(std::span<const std::byte> body, LaneClosed* out) {
  ByteReader in(body);
  out->instance = in.u32();
  const uint8_t by_writer = in.u8();
  out->by_writer = by_writer == 1;
  return in.done() && by_writer <= 1;
}

Body encode(const AveragerHello& message) {
  Body body;
  ByteWriter out(body);
  out.u64(message.group);
  out.u8(message.withdrawn ? 1 : 0);
  out.u64(message.fingerprint);
  out.u32(message.lanes_from);
  out.u32(static_cast<uint32_t>(message.facts.size()));
  for (const std::string& fact : message.facts) out.text(fact);
  return body;
}

bool decode(std::span<const std::byte> body, AveragerHello* out) {
  ByteReader in(body);
  out->group = in.u64();
  out->withdrawn = in.u8() != 0;
  out->fingerprint = in.u64();
  out->lanes_from = in.u32();
  const uint32_t count = in.u32();
  if (count > kMaxFacts) return false;
  out->facts.clear();
  for (uint32_t i = 0; i < count; ++i) out->facts.push_back(in.text());
  return in.done();
}

}  // namespace asyncmesh::core
