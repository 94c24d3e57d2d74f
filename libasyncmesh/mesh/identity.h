// What a process says about itself when it joins, and what the rendezvous publishes about it.
//
// All of it travels inside the authenticated transcript of the handshake. The opaque transport
// address does not: only its digest, so that strangers who listen or knock never see it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_io.h"
#include "mesh/crypto.h"
#include "mesh/mesh.h"

namespace asyncmesh::mesh {

inline constexpr Rank kRendezvousRank = UINT32_MAX;
inline constexpr size_t kMaxIdentityText = 255;    // bytes of each text below
inline constexpr size_t kMaxAddress = 256 * 1024;  // bytes of MeshConfig::address
inline constexpr uint32_t kMaxWorld = 4096;

struct Identity {
  std::string run_id;
  Rank rank = 0;
  uint32_t replicas = 1;
  uint32_t stages = 1;
  uint32_t replica = 0;
  uint32_t stage = 0;
  uint64_t incarnation = 0;
  int64_t peer_timeout = 0;  // ns
  std::string library_version;
  std::string transport_version;
  std::string host;  // for people
  uint32_t pid = 0;
  std::string boot_id;        // equal: the same kernel
  std::string announce_host;  // literal address that peers dial; "" for the rendezvous
  uint16_t port = 0;          // of the control listener
  Digest address_digest{};

  uint32_t world() const { return replicas * stages; }
};

void encode(const Identity& identity, ByteWriter& out);
// False: malformed, or a text too long. Texts come back printable.
[[nodiscard]] bool decode(ByteReader& in, Identity* identity_out);

// "rank 2 (node7, pid 4711)" or "the rendezvous (node1, pid 4000)".
std::string describe(const Identity& identity);
// What `other` must share with `ours` but does not, for people; "" when they agree. Ranks and
// places are not compared.
std::string difference(const Identity& ours, const Identity& other);

// Of this machine and process: host, pid, boot id and a new incarnation; the rest is left alone.
void fill_in_process(Identity& identity);
// Of the configuration: run id, rank, geometry, versions, address digest. Checks the lengths and
// that ranks lie within the geometry (kInvalidArgument).
Result<Identity> identity_of(const MeshConfig& config);

}  // namespace asyncmesh::mesh
