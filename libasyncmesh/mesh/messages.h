// The mesh's own messages (Space::kMesh) and their bodies.
//
//      member -> rendezvous                    rendezvous -> member
//      kReady      connected to all peers      kPresent    ranks that are here (while gathering)
//      kHeartbeat                              kMembers    everybody, with addresses to dial
//      kSuspect    rank, silent?, reason       kStart      epoch: the mesh is up
//      kClear      rank: heard again           kHeartbeat
//      kLeave                                  kRemoved    epoch, rank, reason
//      kAbandon    it thinks you are gone      kMemberLeft epoch, rank
//                                              kLeaveDone  your leave is known to all
//      member <-> member                       kRefused    code, text; then it closes
//      kAddress    transport address           kClosing    the rendezvous ends in good order
//      kHeartbeat
//      kLeave, kLeaveDone
//      kRemoved    epoch, the receiver's rank, reason: it is told that it was removed
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/identity.h"

namespace asyncmesh::mesh {

enum class MeshMessage : uint16_t {
  kHeartbeat = 1,
  kPresent = 2,
  kMembers = 3,
  kReady = 4,
  kStart = 5,
  kRefused = 6,
  kSuspect = 7,
  kClear = 8,
  kRemoved = 9,
  kLeave = 10,
  kMemberLeft = 11,
  kLeaveDone = 12,
  kAbandon = 13,
  kClosing = 14,
  kAddress = 15,
};

// Why a member is suspected. A connection that ended says more than silence.
enum class Suspicion : uint8_t { kClosed = 1, kSilent = 2 };

struct SuspectMessage {
  Rank rank = 0;
  Suspicion suspicion = Suspicion::kClosed;
  std::string reason;
};
// kRemoved, kMemberLeft (no reason), kStart (no rank, no reason).
struct MembershipMessage {
  uint64_t epoch = 0;
  Rank rank = 0;
  std::string reason;
};

using MessageBody = std::vector<std::byte>;

MessageBody encode(const SuspectMessage& message);
MessageBody encode(const MembershipMessage& message);
MessageBody encode_ranks(const std::vector<Rank>& ranks);
MessageBody encode_members(const std::vector<Identity>& members);
// False: malformed. Texts come back printable.
[[nodiscard]] bool decode(ByteSpan body, SuspectMessage* message_out);
[[nodiscard]] bool decode(ByteSpan body, MembershipMessage* message_out);
[[nodiscard]] bool decode_ranks(ByteSpan body, std::vector<Rank>* ranks_out);
[[nodiscard]] bool decode_members(ByteSpan body, std::vector<Identity>* members_out);

// "0, 2, 3 and 9 more".
std::string list_ranks(const std::vector<Rank>& ranks);

}  // namespace asyncmesh::mesh
