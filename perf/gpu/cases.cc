#include "cases.h"

#include <algorithm>

namespace asyncmesh::kernels::bench {
namespace {

constexpr uint32_t kParts = 4;
constexpr uint32_t kMembers = 4;
constexpr uint64_t kSelected = 20;  // one element in so many
constexpr float kWeights[kMembers] = {1, 1, 1, 1};

struct Named {
  const char* name;
  Encoding encoding;
};
constexpr Named kWire[] = {{"fp32", Encoding::kFloat32},
                           {"bf16", Encoding::kBfloat16},
                           {"fp16", Encoding::kFloat16},
                           {"int8", Encoding::kInt8},
                           {"int4", Encoding::kInt4}};

}  // namespace

Bench::Bench(uint64_t parameters, cudaStream_t stream)
    : kernels_(*cuda()),
      parameters_(parameters),
      w_(parameters),
      reference_(parameters),
      ema_(parameters),
      gradient_(parameters),
      moment_(parameters),
      packed_(parameters),
      mean_(parameters),
      encoded_(parameters * 4),
      mirror_(parameters * 2),
      workspace_(kernels_.top_change_workspace(parameters, parameters / kSelected)),
      indices_(parameters / kSelected),
      words_(8),
      visited_(parameters / 64 / 64 + 1),
      sums_(kSumSlots),
      threshold_(1) {
  on_.stream = stream;
  uint64_t seed = 0;
  for (auto* buffer : {&w_, &reference_, &ema_, &gradient_, &moment_, &packed_, &mean_}) {
    fill(*buffer, ++seed);
  }
  check(cudaMemset(encoded_.data(), 0, encoded_.bytes()), "cudaMemset");
  check(cudaMemset(visited_.data(), 0, visited_.bytes()), "cudaMemset");
  check(cudaMemset(threshold_.data(), 0, threshold_.bytes()), "cudaMemset");
  uint64_t blocks = 0;
  for (uint64_t at = 0, i = 0; at < parameters; ++i) {  // matrices, and the vectors of norms
    const uint64_t count = std::min<uint64_t>(parameters - at, i % 4 == 3 ? 4096 : 1 << 24);
    tensors_.push_back({w_.data() + at, count, blocks});
    mirrors_.push_back({mirror_.data() + at * 2, count, blocks});
    blocks += (count + 63) / 64;
    at += count;
  }
  table_ = {tensors_.data(), static_cast<uint32_t>(tensors_.size()), Encoding::kFloat32};
  mirror_table_ = {mirrors_.data(), table_.size, Encoding::kBfloat16};
  subset_ = {1, blocks, kParts, 0, 64, UINT64_MAX};
  for (uint32_t r = 0; r < kMembers; ++r) {
    contributions_.push_back(encoded_.data() + encoded_.bytes() / kMembers * r);
  }
}

const Subset& Bench::rotate() {
  subset_.part = (subset_.part + 1) % kParts;
  if (subset_.part == 0) ++subset_.key;
  return subset_;
}

std::function<void()> Bench::encoded(Encoding encoding, uint32_t members) {
  return [this, encoding, members] {
    for (uint32_t r = 0; r < members; ++r) {
      auto* const to = const_cast<std::byte*>(contributions_[r]);
      kernels_.quantise(reference_.data() + r, parameters_ / kParts, {encoding}, 0, to, on_);
    }
  };
}

// What changes w comes after what selects by it.
std::vector<Case> Bench::cases() {
  std::vector<Case> cases;
  add_selection(cases);
  add_subset(cases);
  add_wire(cases);
  add_dense(cases);
  return cases;
}

void Bench::add_subset(std::vector<Case>& cases) {
  const uint64_t count = parameters_ / kParts;
  for (const Named& wire : kWire) {
    const uint64_t bytes = encoded_bytes(wire.encoding, count);
    cases.push_back({std::string("partition_pack/") + wire.name, count * 8 + bytes, [this, wire] {
                       kernels_.partition_pack(table_, rotate(), {wire.encoding}, packed_.data(),
                                               encoded_.data(), on_);
                     }});
    cases.push_back({std::string("partition_unpack/") + wire.name, count * 4 + bytes,
                     [this, wire] {
                       kernels_.partition_unpack(table_, rotate(), wire.encoding, encoded_.data(),
                                                 on_);
                     },
                     encoded(wire.encoding, 1)});
  }
  cases.push_back({"apply/ema/bf16/mirror", count * (4 * 4 + 2 + 4 * 2 + 2),
                   [this] {
                     ApplyArrays arrays = {packed_.data(), mean_.data(), encoded_.data()};
                     arrays.encoding = Encoding::kBfloat16;
                     arrays.ema = ema_.data();
                     arrays.visited = visited_.data();
                     arrays.mirror = &mirror_table_;
                     kernels_.apply(table_, rotate(), {}, arrays, on_);
                   },
                   encoded(Encoding::kBfloat16, 1)});
}

void Bench::add_wire(std::vector<Case>& cases) {
  const uint64_t count = parameters_ / kParts;
  for (const Named& wire : kWire) {
    const uint64_t bytes = encoded_bytes(wire.encoding, count);
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
      const bool nearest = rounding == Rounding::kNearest;
      if (!nearest && lossless(wire.encoding)) continue;
      cases.push_back({std::string("quantise/") + wire.name + (nearest ? "" : "/stochastic"),
                       count * 4 + bytes, [this, wire, rounding, count] {
                         kernels_.quantise(packed_.data(), count, {wire.encoding, rounding, 1}, 0,
                                           encoded_.data(), on_);
                       }});
    }
    cases.push_back(
        {std::string("dequantise/") + wire.name, count * 4 + bytes, [this, wire, count] {
           kernels_.dequantise(encoded_.data(), count, wire.encoding, packed_.data(), on_);
         }});
    cases.push_back({std::string("average/4/") + wire.name, count * 4 + bytes * kMembers,
                     [this, wire, count] {
                       kernels_.average({contributions_.data(), kWeights, kMembers, wire.encoding},
                                        count, mean_.data(), words_.data(), on_);
                     },
                     encoded(wire.encoding, kMembers)});
  }
}

void Bench::add_dense(std::vector<Case>& cases) {
  const uint64_t count = parameters_;
  cases.push_back({"nadamw/mirror", count * (4 * 7 + 2),
                   [this, count] {
                     NadamwArrays arrays = {w_.data(), gradient_.data()};
                     arrays.m = moment_.data();
                     arrays.v = ema_.data();
                     arrays.mirror = mirror_.data();
                     arrays.mirror_storage = Encoding::kBfloat16;
                     kernels_.nadamw(arrays, count, {}, on_);
                   },
                   [this] {
                     const auto stream = static_cast<cudaStream_t>(on_.stream);
                     check(cudaMemsetAsync(moment_.data(), 0, moment_.bytes(), stream),
                           "cudaMemset");
                     check(cudaMemsetAsync(ema_.data(), 0, ema_.bytes(), stream), "cudaMemset");
                   }});
  cases.push_back({"look_ahead", count * 12, [this, count] {
                     kernels_.look_ahead(w_.data(), reference_.data(), count, 0.9F, mean_.data(),
                                         on_);
                   }});
  cases.push_back({"nesterov", count * 20, [this, count] {
                     kernels_.nesterov(w_.data(), reference_.data(), gradient_.data(), count, 0.9F,
                                       1e-6F, on_);
                   }});
  cases.push_back(
      {"table_ema", count * 12, [this] { kernels_.table_ema(table_, 0.99F, ema_.data(), on_); }});
  cases.push_back({"sum_of_squares", count * 4, [this, count] {
                     kernels_.sum_of_squares(w_.data(), count, sums_.data(), on_);
                   }});
  cases.push_back({"compare/fp32/bf16", count * 6,
                   [this] { kernels_.compare(table_, mirror_table_, sums_.data(), on_); }});
}

void Bench::add_selection(std::vector<Case>& cases) {
  const uint64_t count = parameters_ / kSelected;
  cases.push_back({"top_change/5%", parameters_ * 16 + count * 4,
                   [this, count] {
                     kernels_.top_change({table_, reference_.data()}, count, threshold_.data(),
                                         indices_.data(), workspace_.data(), on_);
                   },
                   [] {}, 0.5});
  // By bytes asked for; memory moves 32 of them for each scattered value.
  cases.push_back({"index_pack/int8/scattered", count * 8 + encoded_bytes(Encoding::kInt8, count),
                   [this, count] {
                     kernels_.index_pack(table_, indices_.data(), count, {Encoding::kInt8}, {},
                                         encoded_.data(), on_);
                   },
                   [] {}, 0});
  cases.push_back({"index_unpack/int8/scattered", count * 8 + encoded_bytes(Encoding::kInt8, count),
                   [this, count] {
                     kernels_.index_unpack(table_, indices_.data(), count, Encoding::kInt8,
                                           encoded_.data(), on_);
                   },
                   [] {}, 0});
  cases.push_back({"encode_indices", count * 5, [this, count] {
                     kernels_.encode_indices(indices_.data(), count, encoded_.data(), words_.data(),
                                             on_);
                   }});
}

}  // namespace asyncmesh::kernels::bench
