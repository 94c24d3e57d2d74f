// The table of kernels and its numeric contract. CPU (kernels/cpu) and CUDA (kernels/cuda) fill the
// same table.
//
// Numbers. Arithmetic is fp32; a table stored as bf16 or fp16 is widened on reading and rounded to
// nearest on writing. Selection, packing, rounding and index streams are exact (identical on every
// backend). Everything else is a fixed sequence of IEEE operations, rounded to nearest, without
// contraction to fma: results depend neither on the compiler, nor on the instruction set, nor on
// the number of threads, and are bitwise equal on CPU and CUDA but for sums over many elements
// (sum_of_squares, compare: fixed order per backend, in double) and for which NaN arithmetic makes.
// `average` sums weight x value in fp32 in member order and multiplies by the reciprocal of the
// weight sum, computed once in double and rounded: the same contributions give bitwise the same
// mean on every rank, whatever the caller's flush-to-zero mode. A contribution is *finite* when all
// its decoded values are.
//
// Threads. Every function is pure but for its outputs. CPU functions return when done, never
// allocate and never throw; with Execution::workers they are spread over those threads. CUDA
// functions are ordered on Execution::stream, never synchronise, never allocate and can be captured
// into a graph; a refused launch is left for the caller in cudaPeekAtLastError().
//
// Pointers: arrays of TensorView, of pointers and of weights are read on the host before the call
// returns; what they point to is host or device memory as the table's backend says. fp32 is aligned
// to 4 and 16-bit tables to 2. Encoded values need no alignment on the CPU; on CUDA 2 (16-bit), 4
// (fp32) or 16 bytes (scaled). Outputs overlap no input unless the same array is both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/selection.h"
#include "kernels/subset.h"
#include "kernels/wire.h"

namespace asyncmesh::kernels {

class Workers;  // kernels/workers.h

// Where and how a call runs.
struct Execution {
  Workers* workers = nullptr;  // CPU: null is the calling thread alone
  void* stream = nullptr;      // CUDA: a cudaStream_t
};

inline constexpr uint32_t kMaxMembers = 64;  // contributions to one average
inline constexpr uint32_t kSumSlots = 1028;  // doubles behind `sums`, most of them scratch

enum class Rule : uint8_t { kAverage = 0, kDelta = 1, kEma = 2 };

struct Contributions {
  const std::byte* const* values = nullptr;  // null: none of that member
  const float* weights = nullptr;
  uint32_t members = 0;  // <= kMaxMembers
  Encoding encoding = Encoding::kFloat32;
};

struct ApplyArgs {
  Rule rule = Rule::kEma;
  float momentum = 0.5F;         // m_k
  float scale = 1.0F;            // lambda
  bool first_visit_full = true;  // a block not visited before takes e = drift, else (1 - m) drift
};

struct ApplyArrays {
  const float* snapshot = nullptr;  // in subset order, as `mean` and `own`
  const float* mean = nullptr;
  const std::byte* own = nullptr;          // this rank's contribution; null: it was lossless
  Encoding encoding = Encoding::kFloat32;  // of `own`
  float* ema = nullptr;                    // kEma: flat over the table
  uint64_t* visited = nullptr;             // kEma: one bit per block
  const ParameterTable* mirror = nullptr;  // may be null; same shapes, a storage of its own
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

struct NadamwArrays {
  void* w = nullptr;               // in `storage`
  const void* gradient = nullptr;  // in `storage`
  Encoding storage = Encoding::kFloat32;
  float* m = nullptr;
  float* v = nullptr;
  void* mirror = nullptr;  // may be null: receives the new w, not rounded to `storage` first
  Encoding mirror_storage = Encoding::kFloat32;
};

// What compare finds: consensus metrics. Squared distance, and the parts of the cosine
// dot / sqrt(first * second).
struct Comparison {
  double squared_distance, dot, first, second;
};

struct Table {
  const char* name;  // "cpu", "cuda"

  // ---- the rotating subset ----

  // Elements of a subset (the sum over its blocks): the count of values that pack writes. Host
  // arithmetic on every backend.
  uint64_t (*subset_elements)(const ParameterTable& table, const Subset& subset);

  // Gathers the subset: `snapshot` (fp32, may be null) and `encoded` (may be null) receive its
  // values in subset order.
  void (*partition_pack)(const ParameterTable& table, const Subset& subset, const Wire& wire,
                         float* snapshot, std::byte* encoded, const Execution& on);
  // The way back: the table's elements become the decoded values.
  void (*partition_unpack)(const ParameterTable& table, const Subset& subset, Encoding encoding,
                           const std::byte* encoded, const Execution& on);

  // mean[i] = sum_r weight_r decode(values_r[i]) / sum_r weight_r over the contributions that are
  // finite, not null, and of finite weight > 0. Sets bit r of *not_finite_out for each that is left
  // out because a value is not finite. Returns the number averaged; below 2, `mean` holds nothing
  // of use.
  // CUDA: *not_finite_out is memory that the device can write, valid in stream order; the number
  // returned is that before non-finite ones are left out (the device knows the rest).
  uint32_t (*average)(const Contributions& from, uint64_t count, float* mean,
                      uint64_t* not_finite_out, const Execution& on);

  // Applies a mean to the subset in one pass. Per element, with x = w, drift = x - snapshot:
  //   kAverage  w <- a                               a = mean, when own is null;
  //   kDelta    w <- a + lambda drift                else a = snapshot + (mean - own), where own is
  //   kEma      e <- m e + (1 - m) drift             this rank's contribution as the others decoded
  //             w <- a + lambda e                    it: what the encoding cannot hold stays local.
  // and mirror <- w as the table holds it. The lossy form holds for kAverage too: written plainly,
  // steps smaller than the encoding's spacing would be lost.
  void (*apply)(const ParameterTable& table, const Subset& subset, const ApplyArgs& args,
                const ApplyArrays& arrays, const Execution& on);

  // ---- explicit indices (selection.h) ----

  // Memory that top_change wants for `elements` elements of which `k` are selected. Aligned to 256.
  size_t (*top_change_workspace)(uint64_t elements, uint64_t k);
  // indices[0, k): the elements of the k largest scores, ties broken by the lower index, ascending.
  // k <= elements <= kMaxSelectable. The k-th score is bracketed by a random sample, which fails
  // once in some ten thousand calls; exact histograms over the data then find it. The CPU takes the
  // threshold's guess instead where a small sample does not speak against it, and one pass over the
  // data: two when the guess was wrong, up to four more when the sample was. CUDA takes no guess:
  // one pass, or five; *threshold is device memory.
  void (*top_change)(const Change& change, uint64_t k, Threshold* threshold, uint32_t* indices,
                     void* workspace, const Execution& on);
  // Values in the order of `indices`.
  void (*index_pack)(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                     const Wire& wire, const Feedback& feedback, std::byte* encoded,
                     const Execution& on);
  // w[index] = value.
  void (*index_unpack)(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                       Encoding encoding, const std::byte* encoded, const Execution& on);
  // w[index] += weight * value.
  void (*index_accumulate)(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                           Encoding encoding, const std::byte* encoded, float weight,
                           const Execution& on);
  // *bytes_out: of the stream. `stream` has room for index_stream_bound(count) bytes, all of which
  // may be written, and is aligned to 4.
  void (*encode_indices)(const uint32_t* indices, uint64_t count, std::byte* stream,
                         uint64_t* bytes_out, const Execution& on);
  // Any bytes may come: *valid_out is 1 when they are a stream of `count` strictly ascending
  // indices below `elements`, else 0 and `indices` holds nothing of use. Reads no byte outside
  // `stream`.
  void (*decode_indices)(const std::byte* stream, uint64_t bytes, uint64_t count, uint64_t elements,
                         uint32_t* indices, uint32_t* valid_out, const Execution& on);

  // ---- whole tables ----

  // NAdam with decoupled weight decay (decay first), algorithm of torch.optim.NAdam, on `count`
  // elements.
  void (*nadamw)(const NadamwArrays& arrays, uint64_t count, const NadamwArgs& args,
                 const Execution& on);
  // Nesterov's look-ahead for delayed gradients (NAG-PP, eqs. 8 and 10):
  // point <- w + gamma (w - previous): where the next gradient is taken.
  void (*look_ahead)(const float* w, const float* previous, uint64_t count, float gamma,
                     float* point, const Execution& on);
  // w, previous <- w + gamma (w - previous) - lr (1 - gamma) gradient, w. In one pass.
  void (*nesterov)(float* w, float* previous, const float* gradient, uint64_t count, float gamma,
                   float lr, const Execution& on);
  // average <- decay average + (1 - decay) w; `average` is flat over the table.
  void (*table_ema)(const ParameterTable& table, float decay, float* average, const Execution& on);
  // sums[0] = sum of squares, accumulated in double in a fixed order: bitwise repeatable. `sums`
  // has kSumSlots doubles, the others are scratch (CUDA: device memory, valid in stream order).
  void (*sum_of_squares)(const float* values, uint64_t count, double* sums, const Execution& on);
  // sums[0..4): a Comparison of two tables of the same shapes; the rest as in sum_of_squares.
  void (*compare)(const ParameterTable& first, const ParameterTable& second, double* sums,
                  const Execution& on);

  // ---- encodings (wire.h) ----

  // `first` is the number of values[0] in the whole run (for the random bits): a multiple of
  // kGroup.
  void (*quantise)(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                   std::byte* out, const Execution& on);
  void (*dequantise)(const std::byte* values, uint64_t count, Encoding encoding, float* out,
                     const Execution& on);
};

const Table& cpu();
// Null: built without CUDA. Not null does not mean that this machine has a device.
const Table* cuda();

}  // namespace asyncmesh::kernels
