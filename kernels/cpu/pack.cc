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

void cpu_pack(const TensorView* tensors, uint32_t tensor_count, const Subset& subset,
              Encoding encoding, float* snapshot, std::byte* encoded, void* /*stream*/) {
  const Rows& row = rows();
  const auto data_of = [tensors](const BlockPlace& place) {
    return tensors[place.tensor].data + place.offset;
  };
  walk_subset(
      tensors, tensor_count, subset,
      [&](const BlockPlace& place) { touch_floats(data_of(place), place.count); },
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

}  // namespace asyncmesh::kernels
