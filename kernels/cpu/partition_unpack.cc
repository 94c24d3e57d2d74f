#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/partition_unpack.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/run_decoder.h"
#include "kernels/cpu/subset_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

struct UnpackPiece {
  std::byte* data;
  uint64_t count;
};

struct UnpackVisitor {
  const UnpackJob& job;
  const BlockRange& blocks;

  template <class Storage>
  HWY_INLINE void run() const {
    const WalkPlan plan(job.table, job.subset, blocks.begin, blocks.end);
    RunDecoder values(job.encoded, job.encoding, job.count,
                      values_before(job.table, job.subset, blocks.begin));
    const TensorView* const tensors = job.table.tensors;
    walk_pieces<UnpackPiece>(
        plan, Storage::kBytes,
        [tensors](const BlockPlace& place, uint64_t) HWY_ATTR {
          auto* data = static_cast<std::byte*>(tensors[place.tensor].data);
          return UnpackPiece{data + place.offset * Storage::kBytes, place.count};
        },
        [](const UnpackPiece& piece)
            HWY_ATTR { prefetch_run(piece.data, piece.count * Storage::kBytes); },
        [&values](const UnpackPiece& piece) HWY_ATTR {
          for (uint64_t done = 0; done != piece.count;) {
            const uint64_t some = HWY_MIN(piece.count - done, values.ready());
            convert_run<Float32, Storage>(values.words(), some,
                                          piece.data + done * Storage::kBytes);
            values.advance(some);
            done += some;
          }
          return true;
        });
  }
};

void unpack_here(const UnpackJob& job, const BlockRange& blocks) {
  with_format(job.table.storage, UnpackVisitor{job, blocks});
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(unpack_here);

}  // namespace

void cpu_partition_unpack(const ParameterTable& table, const Subset& subset, Encoding encoding,
                          const std::byte* encoded, const Execution& on) {
  // How many there are matters where the last group is short.
  const uint64_t count = lossless(encoding) ? 0 : subset_elements(table, subset);
  const UnpackJob job = {table, subset, encoding, encoded, count};
  spread_blocks(on, subset, [&](const BlockRange& blocks) {
    HWY_DYNAMIC_DISPATCH(unpack_here)(job, blocks);
  });
}

}  // namespace asyncmesh::kernels
#endif
