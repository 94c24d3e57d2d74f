// The table of kernels and its numeric contract. CPU (kernels/cpu) and CUDA (kernels/cuda) fill the same table.
//
// Contract. Master weights are fp32. Selection and packing are exact (integer arithmetic, identical on every backend). `average`
// sums weight x value in fp32 in member order 0..R-1 and multiplies by the reciprocal of the weight sum, computed once in double and rounded: the same
// contributions give bitwise the same result on every rank and every call. fma contraction is off for `average`, `apply` and
// `nadamw` on the CPU, so that a result does not depend on the compiler's mood.
// A contribution is *finite* when all its decoded values are; `average` reports those that are not, and leaves them out.
//
// Threads: every function is pure but for its outputs; callers partition work. CPU functions return when done. CUDA functions are
// ordered on `stream`, never synchronise and never allocate. Pointers: host or device as the table's backend says; fp32 aligned to 4.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asyncmesh::kernels {

enum class Encoding : uint8_t { kFloat32 = 0, kBfloat16 = 1, kFloat16 = 2 };  // int8 and int4 block-scaled follow

// Bytes of `count` encoded values.
constexpr size_t encoded_bytes(Encoding encoding, uint64_t count) {
  return static_cast<size_t>(count) * (encoding == Encoding::kFloat32 ? 4 : 2);
}
constexpr bool lossless(Encoding encoding) { return encoding == Encoding::kFloat32; }

// One tensor of a parameter table and where its blocks are numbered.
struct TensorView {
  float* data = nullptr;
  uint64_t count = 0;        // elements
  uint64_t first_block = 0;  // number of its first block within the table
};

// The blocks of part `part` of `parts` under the keyed permutation: block b of the table (b in [0, blocks)) belongs to part
// permute(b) % parts, i.e. part u holds the blocks permute^-1(u), permute^-1(u + parts), ... in that order. (algorithm: rotating
// partition; sizes differ by at most one block.) A block is `granularity` consecutive elements of one tensor, the last one of a
// tensor may be shorter.
struct Subset {
  uint64_t key = 0;       // of the permutation: from seed, group and cycle
  uint64_t blocks = 0;    // in the table
  uint32_t parts = 1;     // N
  uint32_t part = 0;      // u
  uint32_t granularity = 64;
};

enum class Rule : uint8_t { kAverage = 0, kDelta = 1, kEma = 2 };

struct ApplyArgs {
  Rule rule = Rule::kEma;
  float momentum = 0.5F;          // m_k
  float scale = 1.0F;             // lambda
  bool first_visit_full = true;   // an element block not visited before takes e = drift
  bool lossless = true;           // else w <- o + (a - own) + ..., `own` = decode(encode(o))
};

struct NadamwArgs {
  float lr = 0, weight_decay = 0, beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;
  float gradient_scale = 1.0F;    // clipping and loss scale
  // Per-step scalars of (4.3), computed in double by the optimiser: see pipeline/nadamw.h.
  float gradient_factor = 0;      // lr (1 - mu_t) / (1 - prod_t)
  float momentum_factor = 0;      // lr mu_{t+1} / (1 - prod_t mu_{t+1})
  float variance_factor = 0;      // 1 / (1 - beta2^t)
};

struct Table {
  const char* name;  // "cpu", "cuda"

  // Elements of a subset (the sum over its blocks): the count of values that pack writes.
  uint64_t (*subset_elements)(const TensorView* tensors, uint32_t tensor_count, const Subset& subset);

  // Gathers the subset: `snapshot` (fp32, may be null) and `encoded` (wire encoding, may be null) receive its values in subset order.
  void (*pack)(const TensorView* tensors, uint32_t tensor_count, const Subset& subset, Encoding encoding, float* snapshot,
               std::byte* encoded, void* stream);

  // mean[i] = sum_r weight_r decode(values_r[i]) / sum_r weight_r over the contributions with weight > 0 that are finite.
  // `values[r]` may be null (weight 0). Sets bit r of *not_finite_out for each left out (R <= 64). Returns the number averaged; below 2, or with
  // zero total weight, `mean` is not written.
  uint32_t (*average)(const std::byte* const* values, const float* weights, uint32_t members, Encoding encoding, uint64_t count,
                      float* mean, uint64_t* not_finite_out, void* stream);

  // (3.1)-(3.3) on the subset, in one pass: x = w[S]; drift = x - snapshot; e, w written, mirror[S] = w[S] where mirror is not
  // null (`mirror` has the tensors' layout). `ema` is flat fp32 over the table in element order (block b of tensor t at its offset), null unless kEma.
  // `visited`: one bit per block, null unless kEma. `own_encoded`: this rank's contribution as posted, used when !lossless.
  void (*apply)(const TensorView* tensors, uint32_t tensor_count, const Subset& subset, const ApplyArgs& args, const float* snapshot,
                const float* mean, const std::byte* own_encoded, Encoding encoding, float* ema, uint64_t* visited,
                const TensorView* mirror, void* stream);

  // (4.3) on `count` elements. `mirror` may be null: receives the new w.
  void (*nadamw)(float* w, const float* gradient, float* m, float* v, uint64_t count, const NadamwArgs& args, float* mirror, void* stream);

  // Sum of squares in double, blocked in a fixed order: bitwise repeatable.
  double (*sum_of_squares)(const float* values, uint64_t count, void* stream);
  void (*encode)(const float* values, uint64_t count, Encoding encoding, std::byte* out, void* stream);
  void (*decode)(const std::byte* values, uint64_t count, Encoding encoding, float* out, void* stream);
};

const Table& cpu();
const Table* cuda();  // null: built without CUDA

// The keyed permutation of [0, blocks) and its inverse; O(1) memory (a Feistel network, cycle-walking). 1 <= blocks < 2^40.
// Key 0 is the identity: part u holds the blocks u, u + parts, ...
uint64_t permute(uint64_t key, uint64_t blocks, uint64_t block) noexcept;
uint64_t permute_inverse(uint64_t key, uint64_t blocks, uint64_t position) noexcept;

}  // namespace asyncmesh::kernels
