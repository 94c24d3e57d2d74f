#include "averaging/geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "averaging/partition.h"

namespace asyncmesh {
namespace {

constexpr uint64_t kMaxSlots = 1ULL << 20;
constexpr uint32_t kMeanSlots = 8;  // frames of a mean in flight: enough to hide a round trip

constexpr uint64_t divide_up(uint64_t dividend, uint64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

// Pieces of equal size: slots of the largest size would lie half empty where little is left over.
// Cut between groups where there are several.
uint32_t payload_for(kernels::Encoding encoding, uint64_t count) {
  const bool groups = kernels::scaled(encoding) && count > kernels::kGroup;
  const uint64_t unit = groups ? kernels::encoded_bytes(encoding, kernels::kGroup) : 64;
  const uint64_t units =
      std::max<uint64_t>(1, divide_up(kernels::encoded_bytes(encoding, count), unit));
  const uint64_t pieces = divide_up(units, kMaxPieceBytes / unit);
  return static_cast<uint32_t>(divide_up(units, pieces) * unit);
}

}  // namespace

uint64_t values_per_piece(kernels::Encoding encoding, uint32_t payload_bytes) noexcept {
  if (!kernels::scaled(encoding)) return payload_bytes / kernels::encoded_bytes(encoding, 1);
  const uint64_t groups = payload_bytes / kernels::encoded_bytes(encoding, kernels::kGroup);
  if (groups != 0) return groups * kernels::kGroup;
  const uint64_t codes = payload_bytes - std::min(payload_bytes, kernels::kScaleBytes);
  return encoding == kernels::Encoding::kInt4 ? codes * 2 : codes;
}

uint64_t round_slots(const AveragerConfig& config, uint32_t pieces) noexcept {
  return (2 * uint64_t{config.window} + 2) * pieces;
}

uint32_t pieces_of(uint64_t count, kernels::Encoding encoding, uint32_t payload_bytes) noexcept {
  const uint64_t values = values_per_piece(encoding, payload_bytes);
  return static_cast<uint32_t>(std::max<uint64_t>(1, divide_up(count, values)));
}

Result<AveragerGeometry> averager_geometry(const AveragerConfig& config,
                                           const kernels::ParameterTable& table) {
  Result<Partition> partition = Partition::create(config, table);
  if (!partition.ok()) return partition.status();
  const uint64_t most = partition.value().max_elements();
  const uint64_t elements = partition.value().elements();

  AveragerGeometry geometry;
  geometry.rounds.payload_bytes = payload_for(config.encoding, most);
  geometry.pieces = pieces_of(most, config.encoding, geometry.rounds.payload_bytes);
  const uint64_t slots = round_slots(config, geometry.pieces);
  if (slots > kMaxSlots) {
    return Status(Code::kTooLarge,
                  fmt::format("{} frames per round and a window of {} need {} slots per lane",
                              geometry.pieces, config.window, slots));
  }
  geometry.rounds.slots = static_cast<uint32_t>(std::bit_ceil(slots));

  constexpr auto kMeanEncoding = kernels::Encoding::kFloat32;
  geometry.means.payload_bytes = payload_for(kMeanEncoding, elements);
  const uint32_t mean_pieces = pieces_of(elements, kMeanEncoding, geometry.means.payload_bytes);
  geometry.means.slots = std::bit_ceil(std::clamp(mean_pieces, 2U, kMeanSlots));
  return geometry;
}

}  // namespace asyncmesh
