#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/subset_walk.h"

namespace asyncmesh::kernels {
namespace {

// The default granularity gets a copy of constant size, which the compiler unrolls.
inline void copy_floats(const float* from, uint64_t count, void* to) {
  constexpr uint64_t kUsual = 64;
  if (count == kUsual) {
    __builtin_memcpy(to, from, kUsual * sizeof(float));
  } else {
    __builtin_memcpy(to, from, count * sizeof(float));
  }
}

}  // namespace

void cpu_partition_pack(const ParameterTable& table, const Subset& subset, const Wire& wire,
                        float* snapshot, std::byte* encoded, const Execution& /*on*/) {
  const Rows& row = rows();
  const Encoding encoding = wire.encoding;
  const auto data_of = [&table](const BlockPlace& place) {
    return table.tensors[place.tensor].floats() + place.offset;
  };
  walk_subset(
      table, subset, [&](const BlockPlace& place) { touch_floats(data_of(place), place.count); },
      [&](const BlockPlace& place) {
        const float* data = data_of(place);
        if (snapshot != nullptr) {
          copy_floats(data, place.count, snapshot);
          snapshot += place.count;
        }
        if (encoded == nullptr) return;
        if (encoding == Encoding::kFloat32) {
          copy_floats(data, place.count, encoded);
        } else {
          row.encode(data, place.count, encoding, encoded);
        }
        encoded += encoded_bytes(encoding, place.count);
      });
}

void cpu_partition_unpack(const ParameterTable& table, const Subset& subset, Encoding encoding,
                          const std::byte* encoded, const Execution& /*on*/) {
  const Rows& row = rows();
  const auto data_of = [&table](const BlockPlace& place) {
    return table.tensors[place.tensor].floats() + place.offset;
  };
  walk_subset(
      table, subset, [&](const BlockPlace& place) { touch_floats(data_of(place), place.count); },
      [&](const BlockPlace& place) {
        row.decode(encoded, place.count, encoding, data_of(place));
        encoded += encoded_bytes(encoding, place.count);
      });
}

}  // namespace asyncmesh::kernels
