// State as bytes: header, EMA, visited blocks. Little endian, exact.
#include <fmt/format.h>

#include <cstring>

#include "averaging/averager.h"
#include "averaging/fingerprint.h"

namespace asyncmesh {
namespace {

constexpr uint32_t kMagic = 0x4156414D;  // "MAVA"
constexpr uint32_t kVersion = 1;

struct StateHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t fingerprint;  // of what the arrays depend on
  uint64_t next_round;
  uint64_t written;
};
static_assert(sizeof(StateHeader) == 32);

uint64_t fingerprint_of(const AveragerConfig& config, const Partition& partition) {
  std::vector<TensorIdentity> table;
  for (const kernels::TensorView& tensor : partition.tensors()) {
    table.push_back({.id = config.granularity,
                     .count = tensor.count,
                     .dtype = static_cast<uint32_t>(config.rule)});
  }
  return table_fingerprint(table);
}

}  // namespace

uint64_t Averager::state_bytes() const {
  return sizeof(StateHeader) + ema_.size() * sizeof(float) + visited_.size() * sizeof(uint64_t);
}

Status Averager::save(std::span<std::byte> buffer) const {
  if (buffer.size() < state_bytes()) {
    return {Code::kTooLarge,
            fmt::format("the state has {} bytes, the buffer {}", state_bytes(), buffer.size())};
  }
  const StateHeader header{.magic = kMagic,
                           .version = kVersion,
                           .fingerprint = fingerprint_of(config_, partition_),
                           .next_round = next_round_,
                           .written = written_ ? 1U : 0U};
  std::byte* out = buffer.data();
  std::memcpy(out, &header, sizeof header);
  out += sizeof header;
  if (ema_.empty()) return {};
  std::memcpy(out, ema_.data(), ema_.size() * sizeof(float));
  out += ema_.size() * sizeof(float);
  std::memcpy(out, visited_.data(), visited_.size() * sizeof(uint64_t));
  return {};
}

Status Averager::load(std::span<const std::byte> bytes) {
  if (phase_ != Phase::kOpen) return {Code::kInvalidState, "the averager has finished"};
  StateHeader header{};
  if (bytes.size() != state_bytes()) {
    return {Code::kMismatch,
            fmt::format("{} bytes, the state has {}", bytes.size(), state_bytes())};
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic || header.version != kVersion) {
    return {Code::kMismatch, "not the state of an averager of this version"};
  }
  if (header.fingerprint != fingerprint_of(config_, partition_)) {
    return {Code::kMismatch, "the state of another table, rule or granularity"};
  }
  stats_.rounds_discarded += open_.size();
  while (!open_.empty()) retire(false);
  posted_ = false;
  next_round_ = header.next_round;
  written_ = header.written != 0;
  if (ema_.empty()) return {};
  const std::byte* in = bytes.data() + sizeof header;
  std::memcpy(ema_.data(), in, ema_.size() * sizeof(float));
  in += ema_.size() * sizeof(float);
  std::memcpy(visited_.data(), in, visited_.size() * sizeof(uint64_t));
  return {};
}

}  // namespace asyncmesh
