#include "mesh/messages.h"

#include <fmt/format.h>

#include "base/byte_io.h"
#include "mesh/text.h"

namespace asyncmesh::mesh {

namespace {

constexpr size_t kMaxReason = 1024;

}  // namespace

MessageBody encode(const SuspectMessage& message) {
  MessageBody body;
  ByteWriter out(body);
  out.u32(message.rank);
  out.u8(static_cast<uint8_t>(message.suspicion));
  out.text(std::string_view(message.reason).substr(0, kMaxReason));
  return body;
}

bool decode(ByteSpan body, SuspectMessage* message_out) {
  ByteReader in(body);
  SuspectMessage message;
  message.rank = in.u32();
  const uint8_t suspicion = in.u8();
  message.reason = printable(in.text(), kMaxReason);
  if (!in.done() || suspicion < 1 || suspicion > 2) return false;
  message.suspicion = static_cast<Suspicion>(suspicion);
  *message_out = std::move(message);
  return true;
}

MessageBody encode(const MembershipMessage& message) {
  MessageBody body;
  ByteWriter out(body);
  out.u64(message.epoch);
  out.u32(message.rank);
  out.text(std::string_view(message.reason).substr(0, kMaxReason));
  return body;
}

bool decode(ByteSpan body, MembershipMessage* message_out) {
  ByteReader in(body);
  MembershipMessage message;
  message.epoch = in.u64();
  message.rank = in.u32();
  message.reason = printable(in.text(), kMaxReason);
  if (!in.done()) return false;
  *message_out = std::move(message);
  return true;
}

MessageBody encode_ranks(const std::vector<Rank>& ranks) {
  MessageBody body;
  ByteWriter out(body);
  out.u32(static_cast<uint32_t>(ranks.size()));
  for (const Rank rank : ranks) out.u32(rank);
  return body;
}

bool decode_ranks(ByteSpan body, std::vector<Rank>* ranks_out) {
  ByteReader in(body);
  const uint32_t count = in.u32();
  if (count > in.left() / sizeof(Rank)) return false;
  std::vector<Rank> ranks;
  for (uint32_t i = 0; i < count; ++i) ranks.push_back(in.u32());
  if (!in.done()) return false;
  *ranks_out = std::move(ranks);
  return true;
}

MessageBody encode_members(const std::vector<Identity>& members) {
  MessageBody body;
  ByteWriter out(body);
  out.u32(static_cast<uint32_t>(members.size()));
  for (const Identity& member : members) encode(member, out);
  return body;
}

bool decode_members(ByteSpan body, std::vector<Identity>* members_out) {
  ByteReader in(body);
  const uint32_t count = in.u32();
  if (count > kMaxWorld) return false;
  std::vector<Identity> members;
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    Identity member;
    if (!decode(in, &member)) return false;
    members.push_back(std::move(member));
  }
  if (!in.done()) return false;
  *members_out = std::move(members);
  return true;
}

std::string list_ranks(const std::vector<Rank>& ranks) {
  constexpr size_t kShown = 16;
  std::string out;
  for (size_t i = 0; i < ranks.size() && i < kShown; ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  if (ranks.size() > kShown)
    fmt::format_to(std::back_inserter(out), " and {} more", ranks.size() - kShown);
  return out;
}

}  // namespace asyncmesh::mesh
