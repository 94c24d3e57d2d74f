// State as bytes: header, m, v. Little endian, exact.
#include <fmt/format.h>

#include <cstring>

#include "base/random.h"
#include "pipeline/nadamw.h"

namespace asyncmesh {
namespace {

constexpr uint32_t kMagic = 0x4E414457;  // "WDAN"
constexpr uint32_t kVersion = 1;

struct StateHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t fingerprint;  // of the tensors' counts
  uint64_t steps;
  double product;
};
static_assert(sizeof(StateHeader) == 32);

uint64_t fingerprint_of(std::span<const kernels::TensorView> tensors) {
  uint64_t hash = tensors.size();
  for (const kernels::TensorView& tensor : tensors) hash = mix(hash, tensor.count);
  return hash;
}

}  // namespace

uint64_t Nadamw::state_bytes() const {
  return sizeof(StateHeader) + (m_.size() + v_.size()) * sizeof(float);
}

Status Nadamw::save(std::span<std::byte> buffer) const {
  if (buffer.size() < state_bytes()) {
    return {Code::kTooLarge,
            fmt::format("the state has {} bytes, the buffer {}", state_bytes(), buffer.size())};
  }
  const StateHeader header{.magic = kMagic,
                           .version = kVersion,
                           .fingerprint = fingerprint_of(weights_),
                           .steps = steps_,
                           .product = product_};
  std::memcpy(buffer.data(), &header, sizeof header);
  if (m_.empty()) return {};
  std::byte* moments = buffer.data() + sizeof header;
  const size_t bytes = m_.size() * sizeof(float);
  std::memcpy(moments, m_.data(), bytes);
  std::memcpy(moments + bytes, v_.data(), bytes);
  return {};
}

Status Nadamw::load(std::span<const std::byte> bytes) {
  if (bytes.size() != state_bytes()) {
    return {Code::kMismatch,
            fmt::format("{} bytes, the state has {}", bytes.size(), state_bytes())};
  }
  StateHeader header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic || header.version != kVersion) {
    return {Code::kMismatch, "not the state of an optimiser of this version"};
  }
  if (header.fingerprint != fingerprint_of(weights_)) {
    return {Code::kMismatch, "the state of another table"};
  }
  steps_ = header.steps;
  product_ = header.product;
  if (m_.empty()) return {};
  const std::byte* moments = bytes.data() + sizeof header;
  const size_t size = m_.size() * sizeof(float);
  std::memcpy(m_.data(), moments, size);
  std::memcpy(v_.data(), moments + size, size);
  return {};
}

}  // namespace asyncmesh
