// The table of kernels and its numeric contract. CPU (kernels/cpu) and CUDA (kernels/cuda) fill the
// same table.
//
// Numbers. Master weights are fp32. Selection and packing are exact (integer arithmetic, identical
// on every backend). Everything else is a fixed sequence of IEEE operations, rounded to nearest,
// without contraction to fma: results depend neither on the compiler nor on the instruction set,
// and are bitwise equal on CPU and CUDA but for sum_of_squares (fixed order per backend).
// `average` sums weight x value in fp32 in member order and multiplies by the reciprocal of the
// weight sum, computed once in double and rounded: the same contributions give bitwise the same
// mean on every rank, whatever the caller's flush-to-zero mode. A contribution is *finite* when all
// its decoded values are.
//
// Threads: every function is pure but for its outputs; callers partition work. CPU functions return
// when done, never allocate and never throw. CUDA functions are ordered on `stream` (a
// cudaStream_t), never synchronise and never allocate; a refused launch is left for the caller in
// cudaPeekAtLastError().
//
// Pointers: arrays of TensorView, of pointers and of weights are read on the host before the call
// returns; what they point to is host or device memory as the table's backend says. fp32 is aligned
// to 4, encoded values need no alignment on the CPU and 2 (16-bit) or 4 bytes (fp32) on CUDA.
// Outputs overlap no input.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asyncmesh::kernels {

// int8 and int4, block-scaled, follow.
enum class Encoding : uint8_t { kFloat32 = 0, kBfloat16 = 1, kFloat16 = 2 };

// Bytes of `count` encoded values.
constexpr size_t encoded_bytes(Encoding encoding, uint64_t count) {
  return static_cast<size_t>(count) * (encoding == Encoding::kFloat32 ? 4 : 2);
}
constexpr bool lossless(Encoding encoding) { return encoding == Encoding::kFloat32; }

inline constexpr uint32_t kMaxMembers = 64;         // contributions to one average
inline constexpr uint32_t kSumSlots = 257;          // doubles behind `sums` of sum_of_squares
inline constexpr uint64_t kMaxBlocks = 1ULL << 40;  // exclusive

// One tensor of a parameter table and where its blocks are numbered.
struct TensorView {
  float* data = nullptr;
  uint64_t count = 0;        // elements; 0 is allowed and has no block
  uint64_t first_block = 0;  // number of its first block within the table; ascending
};

// The blocks of part `part` of `parts` under the keyed permutation: block b of the table (b in
// [0, blocks)) belongs to part permute(b) % parts, i.e. part u holds the blocks permute^-1(u),
// permute^-1(u + parts), ... in that order. Sizes differ by at most one block. A block is
// `granularity` consecutive elements of one tensor, the last one of a tensor may be shorter.
// `limit` keeps the first so many blocks of the part: with one part and a number drawn from a
// binomial distribution, that is a coin per block, at the cost of the blocks chosen.
// 1 <= blocks < kMaxBlocks, 1 <= parts <= blocks, part < parts, 1 <= granularity. May be empty.
struct Subset {
  uint64_t key = 0;     // of the permutation: from seed, group and cycle; 0 is the identity
  uint64_t blocks = 0;  // in the table
  uint32_t parts = 1;   // N
  uint32_t part = 0;    // u
  uint32_t granularity = 64;
  uint64_t limit = UINT64_MAX;
};

constexpr uint64_t subset_blocks(const Subset& subset) {
  const uint64_t whole = (subset.blocks - subset.part + subset.parts - 1) / subset.parts;
  return whole < subset.limit ? whole : subset.limit;
}

// Whether the block at `position` of the permutation belongs to the subset.
constexpr bool in_subset(const Subset& subset, uint64_t position) {
  return position % subset.parts == subset.part && position / subset.parts < subset.limit;
}

enum class Rule : uint8_t { kAverage = 0, kDelta = 1, kEma = 2 };

struct ApplyArgs {
  Rule rule = Rule::kEma;
  float momentum = 0.5F;         // m_k
  float scale = 1.0F;            // lambda
  bool first_visit_full = true;  // a block not visited before takes e = drift, else (1 - m) drift
  bool lossless = true;          // of the round's encoding; see `apply`
};

// Doubles, because 1 - beta2 of an fp32 0.999 is off by 4.7e-5. Each factor is rounded once.
struct NadamwArgs {
  double lr = 0, weight_decay = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double gradient_scale = 1.0;  // clipping and loss scale
  // Per-step scalars of NAdam, computed by the optimiser (pipeline/nadamw.h):
  double gradient_factor = 0;  // lr (1 - mu_t) / (1 - prod_t)
  double momentum_factor = 0;  // lr mu_{t+1} / (1 - prod_t mu_{t+1})
  double variance_factor = 1;  // 1 / (1 - beta2^t)
};

struct Table {
  const char* name;  // "cpu", "cuda"

  // Elements of a subset (the sum over its blocks): the count of values that pack writes. Host
  // arithmetic on every backend.
  uint64_t (*subset_elements)(const TensorView* tensors, uint32_t tensor_count,
                              const Subset& subset);

  // Gathers the subset: `snapshot` (fp32, may be null) and `encoded` (wire encoding, may be null)
  // receive its values in subset order.
  void (*pack)(const TensorView* tensors, uint32_t tensor_count, const Subset& subset,
               Encoding encoding, float* snapshot, std::byte* encoded, void* stream);

  // mean[i] = sum_r weight_r decode(values_r[i]) / sum_r weight_r over the contributions that are
  // finite, not null, and of finite weight > 0. Sets bit r of *not_finite_out for each that is left
  // out because a value is not finite. members <= kMaxMembers. Returns the number averaged; below
  // 2, `mean` holds nothing of use.
  // CUDA: *not_finite_out is memory that the device can write, valid in stream order; the number
  // returned is that before non-finite ones are left out (the device knows the rest).
  uint32_t (*average)(const std::byte* const* values, const float* weights, uint32_t members,
                      Encoding encoding, uint64_t count, float* mean, uint64_t* not_finite_out,
                      void* stream);

  // Applies a mean to the subset in one pass. Per element, with x = w, drift = x - snapshot:
  //   kAverage  w <- a                               a = mean, when args.lossless;
  //   kDelta    w <- a + lambda drift                else a = snapshot + (mean - own), where own is
  //   kEma      e <- m e + (1 - m) drift             this rank's contribution as the others decoded
  //             w <- a + lambda e                    it: what the encoding cannot hold stays local.
  // and mirror <- w where mirror is not null (same layout as the tensors). The lossy form holds for
  // kAverage too: written plainly, steps smaller than the encoding's spacing would be lost.
  // `ema` is flat fp32 over the table in element order, `visited` has one bit per block; both null
  // unless kEma. `own_encoded` may be null when args.lossless.
  void (*apply)(const TensorView* tensors, uint32_t tensor_count, const Subset& subset,
                const ApplyArgs& args, const float* snapshot, const float* mean,
                const std::byte* own_encoded, Encoding encoding, float* ema, uint64_t* visited,
                const TensorView* mirror, void* stream);

  // NAdam with decoupled weight decay (decay first) on `count` elements. `mirror` may be null:
  // receives the new w.
  void (*nadamw)(float* w, const float* gradient, float* m, float* v, uint64_t count,
                 const NadamwArgs& args, float* mirror, void* stream);

  // sums[0] = sum of squares, accumulated in double in a fixed order: bitwise repeatable. `sums`
  // has kSumSlots doubles, the others are scratch (CUDA: device memory, valid in stream order).
  void (*sum_of_squares)(const float* values, uint64_t count, double* sums, void* stream);

  // Round to nearest, ties to even; NaN stays NaN (quiet, sign and leading payload bits kept).
  void (*encode)(const float* values, uint64_t count, Encoding encoding, std::byte* out,
                 void* stream);
  void (*decode)(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                 void* stream);
};

const Table& cpu();
// Null: built without CUDA. Not null does not mean that this machine has a device.
const Table* cuda();

// The keyed permutation of [0, blocks) and its inverse; O(1) memory (a Feistel network,
// cycle-walking). 1 <= blocks < kMaxBlocks. Key 0 is the identity: part u holds the blocks u,
// u + parts, ...
uint64_t permute(uint64_t key, uint64_t blocks, uint64_t block) noexcept;
uint64_t permute_inverse(uint64_t key, uint64_t blocks, uint64_t position) noexcept;

}  // namespace asyncmesh::kernels
