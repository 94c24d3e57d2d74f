// What peers tell each other out of band: a transport's address, and the offer of a lane.
//
// UCX's own addresses and keys are inside, and UCX trusts what it is given. So both records carry a
// checksum and everything that must agree, and are checked before UCX sees a byte of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "transport/transport.h"

namespace asyncmesh::transport {

enum class UcxEngine : uint16_t { kTag = 1, kRma = 2 };

// A transport's address: who it is and what it can reach. UCX's address is per link and travels in
// offers.
struct UcxAddress {
  uint32_t magic = 0;
  uint32_t crc = 0;  // CRC32C of the record with this field 0
  UcxEngine engine = UcxEngine::kTag;
  uint8_t ucx_major = 0;
  uint8_t ucx_minor = 0;
  uint32_t has_verbs = 0;
  uint64_t node = 0;  // random, one per transport object
  uint64_t host = 0;  // equal where shared memory can be exchanged: boot, IPC and PID namespace
};
static_assert(sizeof(UcxAddress) == 32);

UcxAddress own_ucx_address(UcxEngine engine);
Bytes pack(UcxAddress address);
// kInvalidArgument: not such a record. kMismatch: another engine, or a UCX with another minor
// version (their wire formats are not compatible).
Result<UcxAddress> parse_ucx_address(std::span<const std::byte> bytes, UcxEngine engine);

struct UcxOffer {
  uint32_t magic = 0;
  uint32_t crc = 0;  // CRC32C of all bytes with this field 0
  UcxEngine engine = UcxEngine::kTag;
  Epoch epoch = 0;
  LaneId lane = 0;
  uint16_t worker_bytes = 0;  // of UCX's address of the reader's worker, which follows
  uint32_t slots = 0;
  uint32_t slot_bytes = 0;
  uint32_t key_bytes = 0;  // of the arena's remote key, which follows that; rma only
  int32_t segment = -1;    // rma: see segment_guard.h
  uint64_t arena = 0;      // rma: address of the arena in the reader's process
};
static_assert(sizeof(UcxOffer) == 40);

struct ParsedOffer {
  UcxOffer offer;
  std::span<const std::byte> worker;  // into the bytes that were parsed
  std::span<const std::byte> key;
};

Bytes pack(UcxOffer offer, std::span<const std::byte> worker, std::span<const std::byte> key);
// `expected` gives engine, epoch, lane, slots and slot_bytes. kMismatch: the offer is for another
// lane or epoch, or damaged.
Result<ParsedOffer> parse_ucx_offer(std::span<const std::byte> bytes, const UcxOffer& expected);

}  // namespace asyncmesh::transport
