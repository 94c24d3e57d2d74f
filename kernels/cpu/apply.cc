#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/apply.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include "kernels/cpu/apply.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/subset_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace asyncmesh::kernels::HWY_NAMESPACE {

// The format of `own` where the encoding is lossless: there is none.
struct NoOwn {
  static constexpr size_t kBytes = 0;
};
template <class Own>
inline constexpr bool kLossy = Own::kBytes != 0;

// The arithmetic of element.h on vectors, and on single values where a run ends.
template <class Own, ApplyStep kStep>
struct ApplyArithmetic {
  const ApplyFactors factors;

  template <class D>
  HWY_INLINE hn::VFromD<D> vector(D d, hn::VFromD<D> w, hn::VFromD<D> snapshot, const ApplyRun& run,
                                  uint64_t i) const {
    auto target = hn::LoadU(d, run.mean + i);
    if constexpr (kLossy<Own>) {
      const auto own = Own::load(d, run.own + i * Own::kBytes);
      target = hn::Add(snapshot, hn::Sub(target, own));
    }
    if constexpr (kStep == ApplyStep::kNone) return target;
    auto step = hn::Sub(w, snapshot);
    if constexpr (kStep == ApplyStep::kEma || kStep == ApplyStep::kFirstEma) {
      step = hn::Mul(hn::Set(d, factors.gain), step);
      if constexpr (kStep == ApplyStep::kEma) {
        step = hn::Add(hn::Mul(hn::Set(d, factors.keep), hn::LoadU(d, run.ema + i)), step);
      }
      hn::StoreU(step, d, run.ema + i);
    }
    return hn::Add(target, hn::Mul(hn::Set(d, factors.scale), step));
  }

  HWY_INLINE float single(float w, const ApplyRun& run, uint64_t i) const {
    float target = run.mean[i];
    if constexpr (kLossy<Own>) {
      target = lossy_target(run.snapshot[i], target, Own::load1(run.own + i * Own::kBytes));
    }
    if constexpr (kStep == ApplyStep::kNone) return target;
    float step = w - run.snapshot[i];
    if constexpr (kStep == ApplyStep::kEma) step = ema_next(factors, run.ema[i], step);
    if constexpr (kStep == ApplyStep::kFirstEma) step = ema_first(factors, step);
    if constexpr (kStep == ApplyStep::kEma || kStep == ApplyStep::kFirstEma) run.ema[i] = step;
    return corrected(factors, target, step);
  }
};

template <class Storage, class Own, ApplyStep kStep, class Count>
HWY_INLINE void apply_run(const ApplyRun& run, Count count, const ApplyFactors& factors) {
  const hn::ScalableTag<float> d;
  const uint64_t lanes = hn::Lanes(d);
  const uint64_t whole = count - count % lanes;
  const ApplyArithmetic<Own, kStep> arithmetic = {factors};
  for (uint64_t i = 0; i != whole; i += lanes) {
    std::byte* const at = run.w + i * Storage::kBytes;
    const auto snapshot = hn::LoadU(d, run.snapshot + i);
    Storage::store(d, arithmetic.vector(d, Storage::load(d, at), snapshot, run, i), at);
  }
  for (uint64_t i = whole; i != count; ++i) {
    std::byte* const at = run.w + i * Storage::kBytes;
    Storage::store1(arithmetic.single(Storage::load1(at), run, i), at);
  }
}

// Each block once in a training.
template <class Storage, class Own>
HWY_NOINLINE void apply_first(const ApplyRun& run, uint64_t count, const ApplyFactors& factors) {
  apply_run<Storage, Own, ApplyStep::kFirstEma>(run, count, factors);
}

struct ApplyPiece {
  std::byte* w;
  float* ema;
  std::byte* mirror;
  uint32_t count;
  bool first_visit;
};
using ApplyBatch = Batch<ApplyPiece, 4>;

using MirrorFunction = void (*)(const std::byte* from, uint64_t count, std::byte* to);

// What goes with a batch.
struct ApplyRest {
  const float* snapshot;
  const float* mean;
  const std::byte* own;   // in the format of Own; null: lossless
  MirrorFunction mirror;  // may be null
  size_t mirror_word;
};

template <class Storage, bool kEma>
HWY_INLINE void prefetch_piece(const ApplyPiece& piece, uint64_t count, size_t mirror_word) {
  prefetch_all(piece.w, count * Storage::kBytes);
  if (kEma) prefetch_all(reinterpret_cast<const std::byte*>(piece.ema), count * sizeof(float));
  if (mirror_word != 0) prefetch_all(piece.mirror, count * mirror_word);
}

// The loop that does the work. Copies of the arguments stay in registers: what is written might be
// one of them.
template <class Storage, class Own, ApplyStep kStep>
void apply_batch(const ApplyJob& job, const ApplyBatch& batch, const ApplyBatch& later,
                 const ApplyRest& with) {
  constexpr bool kEma = kStep == ApplyStep::kEma;
  const ApplyFactors factors = job.later;
  ApplyRest rest = with;
  for_each_piece(
      batch, later,
      [&](const ApplyPiece& piece, auto count, const ApplyPiece& next, auto next_count) HWY_ATTR {
        prefetch_piece<Storage, kEma>(next, next_count, rest.mirror_word);
        prefetch_behind(rest.snapshot, count * sizeof(float));
        prefetch_behind(rest.mean, count * sizeof(float));
        if constexpr (Own::kBytes == sizeof(uint16_t)) {  // fp32 words come from a buffer
          prefetch_behind(rest.own, count * Own::kBytes);
        }
        float* const ema = kEma ? piece.ema : nullptr;
        const ApplyRun run = {piece.w, rest.snapshot, rest.mean, rest.own, ema};
        if (kEma && HWY_UNLIKELY(piece.first_visit)) {
          apply_first<Storage, Own>(run, count, job.first);
        } else {
          apply_run<Storage, Own, kStep>(run, count, factors);
        }
        if (rest.mirror != nullptr) rest.mirror(piece.w, count, piece.mirror);
        rest.snapshot += count;
        rest.mean += count;
        rest.own += count * Own::kBytes;
      });
}

using ApplyFunction = void (*)(const ApplyJob& job, const ApplyBatch& batch,
                               const ApplyBatch& later, const ApplyRest& with);

template <class Storage>
struct OwnChoice {
  ApplyStep step;

  template <class Own>
  HWY_INLINE ApplyFunction run() const {
    switch (step) {
      case ApplyStep::kNone:
        return apply_batch<Storage, Own, ApplyStep::kNone>;
      case ApplyStep::kDrift:
        return apply_batch<Storage, Own, ApplyStep::kDrift>;
      default:
        return apply_batch<Storage, Own, ApplyStep::kEma>;
    }
  }
};
struct StorageChoice {
  const ApplyJob& job;

  template <class Storage>
  HWY_INLINE ApplyFunction run() const {
    const OwnChoice<Storage> choice = {job.step};
    if (job.arrays.own == nullptr) return choice.template run<NoOwn>();
    return with_format(job.arrays.encoding, choice);  // scaled ones are decoded before
  }
};

template <class From>
struct MirrorTo {
  template <class To>
  HWY_INLINE MirrorFunction run() const {
    return convert_run<From, To>;
  }
};
struct MirrorChoice {
  Encoding to;
  template <class From>
  HWY_INLINE MirrorFunction run() const {
    return with_format(to, MirrorTo<From>());
  }
};

static_assert(ApplyBatch::kPieces * kPiece <= RunDecoder::kMost);

// Applies batches one after the other.
class Applier {
 public:
  Applier(const ApplyJob& job, const BlockRange& blocks)
      : job_(job),
        word_(encoded_bytes(job.table.storage, 1)),
        function_(with_format(job.table.storage, StorageChoice{job})),
        position_(values_before(job.table, job.subset, blocks.begin)),
        decoder_(job.arrays.own, job.arrays.encoding, job.count, position_) {
    if (job.arrays.mirror == nullptr) return;
    mirror_word_ = encoded_bytes(job.arrays.mirror->storage, 1);
    mirror_ = with_format(job.table.storage, MirrorChoice{job.arrays.mirror->storage});
  }

  // Half as far ahead as where there is but the table: snapshot and mean are on their way too.
  uint64_t ahead_values() const {
    constexpr size_t kBytes = 4096;  // over all arrays in table order
    return kBytes / (word_ + mirror_word_ + (has_ema() ? sizeof(float) : 0));
  }

  HWY_INLINE void prefetch(const ApplyPiece& piece) const {
    prefetch_all(piece.w, piece.count * word_);
    if (has_ema()) {
      prefetch_all(reinterpret_cast<const std::byte*>(piece.ema), piece.count * sizeof(float));
    }
  }

  HWY_INLINE void apply(const ApplyBatch& batch, const ApplyBatch& later) {
    const uint64_t values = batch.values;
    function_(job_, batch, later,
              {job_.arrays.snapshot + position_, job_.arrays.mean + position_, own(values), mirror_,
               mirror_word_});
    position_ += values;
  }

 private:
  bool has_ema() const { return job_.step == ApplyStep::kEma; }
  HWY_INLINE const std::byte* own(uint64_t values) {
    const ApplyArrays& arrays = job_.arrays;
    if (arrays.own == nullptr) return nullptr;
    if (scaled(arrays.encoding)) return decoder_.read(values);
    return arrays.own + encoded_bytes(arrays.encoding, position_);
  }

  const ApplyJob& job_;
  const size_t word_;
  size_t mirror_word_ = 0;
  const ApplyFunction function_;
  MirrorFunction mirror_ = nullptr;
  uint64_t position_;
  RunDecoder decoder_;
};

// Finds what belongs to a piece. Copies of what it looks at stay in registers, as in apply_batch.
struct ApplyPlaces {
  explicit ApplyPlaces(const ApplyJob& of)
      : job(of),
        ema(of.step == ApplyStep::kEma ? of.arrays.ema : nullptr),
        mirror(of.arrays.mirror) {}

  const ApplyJob& job;
  float* const ema;
  const ParameterTable* const mirror;
  mutable uint64_t block = UINT64_MAX;
  mutable bool fresh = false;

  HWY_INLINE void operator()(const BlockPlace& place, uint64_t of, ApplyPiece& piece_out) const {
    piece_out.w = place.data;
    piece_out.count = static_cast<uint32_t>(place.count);
    if (mirror != nullptr) {
      piece_out.mirror = static_cast<std::byte*>(mirror->tensors[place.tensor].data) +
                         encoded_bytes(mirror->storage, place.offset);
    }
    if (ema != nullptr) {
      piece_out.ema = ema + place.element;
      if (of != block) fresh = first_visit(job, of);
      block = of;
      piece_out.first_visit = fresh;
    }
  }
};

void apply_here(const ApplyJob& job, const BlockRange& blocks) {
  const WalkPlan plan(job.table, job.subset, blocks.begin, blocks.end);
  Applier applier(job, blocks);
  walk_batches<ApplyBatch>(
      plan, applier.ahead_values(), ApplyPlaces(job),
      [&applier](const ApplyPiece& piece) HWY_ATTR { applier.prefetch(piece); },
      [&applier](const ApplyBatch& batch, const ApplyBatch& later) HWY_ATTR {
        applier.apply(batch, later);
        return true;
      });
}

}  // namespace asyncmesh::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace asyncmesh::kernels {
namespace {

HWY_EXPORT(apply_here);

ApplyStep step_of(Rule rule) {
  switch (rule) {
    case Rule::kAverage:
      return ApplyStep::kNone;
    case Rule::kDelta:
      return ApplyStep::kDrift;
    case Rule::kEma:
      break;
  }
  return ApplyStep::kEma;
}

}  // namespace

void cpu_apply(const ParameterTable& table, const Subset& subset, const ApplyArgs& args,
               const ApplyArrays& arrays, const Execution& on) {
  const float gain = 1.0F - args.momentum;
  ApplyJob job = {table, subset, arrays};
  job.step = step_of(args.rule);
  job.later = {args.momentum, gain, args.scale};
  job.first = {0, args.first_visit_full ? 1.0F : gain, args.scale};
  // How many there are matters where the last group of `own` is short.
  const bool decodes = arrays.own != nullptr && scaled(arrays.encoding);
  job.count = decodes ? subset_elements(table, subset) : 0;
  job.shared = on.workers != nullptr;
  spread_blocks(on, subset, [&](const BlockRange& blocks) {
    HWY_DYNAMIC_DISPATCH(apply_here)(job, blocks);
  });
}

}  // namespace asyncmesh::kernels
#endif
