#include "transport/ucx/ucx_offer.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "base/crc32c.h"
#include "transport/ucx/ucx_context.h"

namespace asyncmesh::transport {
namespace {

constexpr uint32_t kAddressMagic = 0x41584D41;  // "AMXA"
constexpr uint32_t kOfferMagic = 0x4F584D41;    // "AMXO"

uint64_t random_node() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

uint64_t namespace_id(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

uint64_t host_id() {
  char boot[64] = {};
  if (FILE* file = fopen("/proc/sys/kernel/random/boot_id", "re"); file != nullptr) {
    const size_t got = fread(boot, 1, sizeof(boot) - 1, file);
    boot[got] = '\0';
    fclose(file);
  }
  const uint64_t spaces[] = {namespace_id("/proc/self/ns/ipc"), namespace_id("/proc/self/ns/pid")};
  const uint32_t low = crc32c(crc32c(0, boot, sizeof(boot)), spaces, sizeof(spaces));
  const uint32_t high = crc32c(crc32c(low, spaces, sizeof(spaces)), boot, sizeof(boot));
  return (uint64_t{high} << 32) | low;
}

}  // namespace

UcxAddress own_ucx_address(UcxEngine engine) {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  UcxAddress address;
  address.magic = kAddressMagic;
  address.engine = engine;
  address.ucx_major = static_cast<uint8_t>(major);
  address.ucx_minor = static_cast<uint8_t>(minor);
  address.has_verbs = has_verbs_device() ? 1 : 0;
  address.node = random_node();
  address.host = host_id();
  return address;
}

Bytes pack(UcxAddress address) {
  address.crc = 0;
  address.crc = crc32c(0, &address, sizeof(address));
  Bytes bytes(sizeof(address));
  std::memcpy(bytes.data(), &address, sizeof(address));
  return bytes;
}

Result<UcxAddress> parse_ucx_address(std::span<const std::byte> bytes, UcxEngine engine) {
  UcxAddress address;
  if (bytes.size() == sizeof(address)) std::memcpy(&address, bytes.data(), sizeof(address));
  const uint32_t crc = std::exchange(address.crc, 0);
  if (address.magic != kAddressMagic || crc != crc32c(0, &address, sizeof(address))) {
    return Status(Code::kInvalidArgument, "not an address of this transport");
  }
  const UcxAddress own = own_ucx_address(engine);
  if (address.engine != engine) {
    return Status(Code::kMismatch, "the address belongs to another engine");
  }
  if (address.ucx_major != own.ucx_major || address.ucx_minor != own.ucx_minor) {
    return Status(Code::kMismatch,
                  fmt::format("the peer runs UCX {}.{}, this process {}.{}", address.ucx_major,
                              address.ucx_minor, own.ucx_major, own.ucx_minor));
  }
  return address;
}

Bytes pack(UcxOffer offer, std::span<const std::byte> worker, std::span<const std::byte> key) {
  offer.magic = kOfferMagic;
  offer.crc = 0;
  offer.worker_bytes = static_cast<uint16_t>(worker.size());
  offer.key_bytes = static_cast<uint32_t>(key.size());
  Bytes bytes(sizeof(offer) + worker.size() + key.size());
  std::memcpy(bytes.data(), &offer, sizeof(offer));
  std::copy(worker.begin(), worker.end(), bytes.begin() + sizeof(offer));
  std::copy(key.begin(), key.end(), bytes.end() - static_cast<ptrdiff_t>(key.size()));
  offer.crc = crc32c(0, bytes.data(), bytes.size());
  std::memcpy(bytes.data(), &offer, sizeof(offer));
  return bytes;
}

Result<ParsedOffer> parse_ucx_offer(std::span<const std::byte> bytes, const UcxOffer& expected) {
  ParsedOffer parsed;
  UcxOffer& offer = parsed.offer;
  const size_t header = std::min(bytes.size(), sizeof(offer));
  if (header == sizeof(offer)) std::memcpy(&offer, bytes.data(), sizeof(offer));
  const auto rest = bytes.subspan(header);
  const uint32_t crc = std::exchange(offer.crc, 0);
  const bool whole = offer.magic == kOfferMagic &&
                     rest.size() == size_t{offer.worker_bytes} + offer.key_bytes &&
                     crc == crc32c(crc32c(0, &offer, sizeof(offer)), rest.data(), rest.size());
  const bool fits = offer.engine == expected.engine && offer.epoch == expected.epoch &&
                    offer.lane == expected.lane && offer.slots == expected.slots &&
                    offer.slot_bytes == expected.slot_bytes;
  if (!whole || !fits) {
    return Status(Code::kMismatch, fmt::format("lane {}: the reader's offer does not fit this "
                                               "lane and epoch",
                                               expected.lane));
  }
  parsed.worker = rest.first(offer.worker_bytes);
  parsed.key = rest.subspan(offer.worker_bytes);
  return parsed;
}

}  // namespace asyncmesh::transport
