#include "mesh/identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "mesh/text.h"

namespace asyncmesh::mesh {

namespace {

bool read_text(ByteReader& in, std::string* text_out) {
  const std::string text = in.text();
  if (text.size() > kMaxIdentityText) return false;
  *text_out = printable(text);
  return true;
}

template <typename T>
void compare(std::string& out, std::string_view what, const T& ours, const T& other) {
  if (ours == other) return;
  fmt::format_to(std::back_inserter(out), "{}{} is {} there and {} here", out.empty() ? "" : "; ",
                 what, other, ours);
}

Status check(const MeshConfig& config) {
  const uint64_t world = uint64_t{config.replicas} * config.stages;
  const auto invalid = [](std::string text) {
    return Status(Code::kInvalidArgument, std::move(text));
  };
  if (world == 0 || world > kMaxWorld) {
    return invalid(fmt::format("{} replicas x {} stages: a mesh has 1 to {} ranks", config.replicas,
                               config.stages, kMaxWorld));
  }
  if (config.rank >= world) {
    return invalid(fmt::format("rank {} does not exist: {} replicas x {} stages", config.rank,
                               config.replicas, config.stages));
  }
  if (config.replica >= config.replicas || config.stage >= config.stages) {
    return invalid(fmt::format("replica {}, stage {} does not exist: {} replicas x {} stages",
                               config.replica, config.stage, config.replicas, config.stages));
  }
  if (config.peer_timeout < 8'000'000 || config.peer_timeout > 86'400'000'000'000) {
    return invalid("peer_timeout must lie between 8 ms and a day");
  }
  for (const std::string* text :
       {&config.run_id, &config.library_version, &config.transport_version, &config.bind_address,
        &config.announce_address}) {
    if (text->size() > kMaxIdentityText) {
      return invalid(fmt::format("a text of the configuration is longer than {} bytes: \"{}\"",
                                 kMaxIdentityText, printable(*text, 32)));
    }
  }
  if (config.address.size() > kMaxAddress) {
    return invalid(fmt::format("the transport address has {} bytes, at most {} are possible",
                               config.address.size(), kMaxAddress));
  }
  return {};
}

}  // namespace

void encode(const Identity& identity, ByteWriter& out) {
  out.text(identity.run_id);
  out.u32(identity.rank);
  out.u32(identity.replicas);
  out.u32(identity.stages);
  out.u32(identity.replica);
  out.u32(identity.stage);
  out.u64(identity.incarnation);
  out.i64(identity.peer_timeout);
  out.text(identity.library_version);
  out.text(identity.transport_version);
  out.text(identity.host);
  out.u32(identity.pid);
  out.text(identity.boot_id);
  out.text(identity.announce_host);
  out.u16(identity.port);
  out.raw(identity.address_digest);
}

bool decode(ByteReader& in, Identity* identity_out) {
  Identity identity;
  bool fits = read_text(in, &identity.run_id);
  identity.rank = in.u32();
  identity.replicas = in.u32();
  identity.stages = in.u32();
  identity.replica = in.u32();
  identity.stage = in.u32();
  identity.incarnation = in.u64();
  identity.peer_timeout = in.i64();
  fits = read_text(in, &identity.library_version) && fits;
  fits = read_text(in, &identity.transport_version) && fits;
  fits = read_text(in, &identity.host) && fits;
  identity.pid = in.u32();
  fits = read_text(in, &identity.boot_id) && fits;
  fits = read_text(in, &identity.announce_host) && fits;
  identity.port = in.u16();
  const ByteSpan digest = in.raw(identity.address_digest.size());
  if (!in.ok() || !fits) return false;
  std::copy(digest.begin(), digest.end(), identity.address_digest.begin());
  *identity_out = std::move(identity);
  return true;
}

std::string describe(const Identity& identity) {
  if (identity.rank == kRendezvousRank) {
    return fmt::format("the rendezvous ({}, pid {})", identity.host, identity.pid);
  }
  return fmt::format("rank {} ({}, pid {})", identity.rank, identity.host, identity.pid);
}

std::string difference(const Identity& ours, const Identity& other) {
  std::string out;
  compare(out, "run id", fmt::format("\"{}\"", printable(ours.run_id)),
          fmt::format("\"{}\"", printable(other.run_id)));
  compare(out, "world size", ours.world(), other.world());
  compare(out, "number of replicas", ours.replicas, other.replicas);
  compare(out, "number of stages", ours.stages, other.stages);
  compare(out, "library version", printable(ours.library_version),
          printable(other.library_version));
  compare(out, "transport", printable(ours.transport_version), printable(other.transport_version));
  compare(out, "peer_timeout (ms)", ours.peer_timeout / 1'000'000, other.peer_timeout / 1'000'000);
  return out;
}

void fill_in_process(Identity& identity) {
  char name[256] = {};
  identity.host = gethostname(name, sizeof name - 1) == 0 ? printable(name) : "?";
  identity.pid = static_cast<uint32_t>(getpid());
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, identity.boot_id);
  // Wall-clock time: a restarted process gets a larger one, whatever its machine.
  identity.incarnation =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count());
}

Result<Identity> identity_of(const MeshConfig& config) {
  ASYNCMESH_RETURN_IF_ERROR(check(config));
  Identity identity;
  identity.run_id = config.run_id;
  identity.rank = config.rank;
  identity.replicas = config.replicas;
  identity.stages = config.stages;
  identity.replica = config.replica;
  identity.stage = config.stage;
  identity.peer_timeout = config.peer_timeout;
  identity.library_version = config.library_version;
  identity.transport_version = config.transport_version;
  if (!sha256({config.address}, &identity.address_digest)) {
    return Status(Code::kInternal, "SHA-256 failed");
  }
  fill_in_process(identity);
  return identity;
}

}  // namespace asyncmesh::mesh
