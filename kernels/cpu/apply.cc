#include <algorithm>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/subset_walk.h"

namespace asyncmesh::kernels {
namespace {

// What advances through the packed arrays, block by block.
struct PackedInputs {
  const float* snapshot;
  const float* mean;
  const std::byte* own;  // null: lossless
  Encoding encoding;

  void advance(uint64_t count) {
    snapshot += count;
    mean += count;
    if (own != nullptr) own += encoded_bytes(encoding, count);
  }
};

// Tests and sets the bit of a block.
bool first_visit(uint64_t* visited, uint64_t block) {
  uint64_t& word = visited[block / 64];
  const uint64_t bit = uint64_t{1} << (block % 64);
  const bool first = (word & bit) == 0;
  word |= bit;
  return first;
}

// One block; in runs, so that a lossy contribution is decoded on the stack.
void apply_block(const Rows& rows, ApplyRow row, Rule rule, const ApplyFactors& factors,
                 const PackedInputs& inputs) {
  if (inputs.own == nullptr) return rows.apply(row, rule, factors);
  constexpr uint64_t kRun = 1024;
  float own[kRun];
  row.own = own;
  const std::byte* encoded = inputs.own;
  for (uint64_t left = row.count; left != 0; left -= row.count) {
    row.count = std::min(left, kRun);
    rows.decode(encoded, row.count, inputs.encoding, own);
    rows.apply(row, rule, factors);
    encoded += encoded_bytes(inputs.encoding, row.count);
    row.w += row.count;
    row.snapshot += row.count;
    row.mean += row.count;
    if (row.ema != nullptr) row.ema += row.count;
  }
}

}  // namespace

void cpu_apply(const ParameterTable& table, const Subset& subset, const ApplyArgs& args,
               const ApplyArrays& arrays, const Execution& /*on*/) {
  float* const ema = arrays.ema;
  const ParameterTable* const mirror = arrays.mirror;
  const auto mirror_of = [mirror](const BlockPlace& place) {
    return mirror->tensors[place.tensor].floats() + place.offset;
  };
  const Rows& row = rows();
  const bool has_ema = args.rule == Rule::kEma;
  const ApplyFactors later = {args.momentum, 1.0F - args.momentum, args.scale};
  const ApplyFactors first = {0, args.first_visit_full ? 1.0F : later.gain, args.scale};
  PackedInputs inputs = {arrays.snapshot, arrays.mean, arrays.own, arrays.encoding};
  walk_subset(
      table, subset,
      [&](const BlockPlace& place) {
        touch_floats(table.tensors[place.tensor].floats() + place.offset, place.count);
        if (has_ema) touch_floats(ema + place.element, place.count);
        if (mirror != nullptr) touch_floats(mirror_of(place), place.count);
      },
      [&](const BlockPlace& place) {
        float* w = table.tensors[place.tensor].floats() + place.offset;
        const bool fresh = has_ema && first_visit(arrays.visited, place.block);
        const ApplyRow block = {w,
                                inputs.snapshot,
                                inputs.mean,
                                nullptr,
                                has_ema ? ema + place.element : nullptr,
                                place.count,
                                fresh};
        apply_block(row, block, args.rule, fresh ? first : later, inputs);
        if (mirror != nullptr) std::copy_n(w, place.count, mirror_of(place));
        inputs.advance(place.count);
      });
}

}  // namespace asyncmesh::kernels
