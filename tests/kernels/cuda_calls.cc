#include "tests/kernels/cuda_calls.h"

#include <algorithm>

namespace asyncmesh::kernels::backend {
namespace {

// One with a call below for each; two are host arithmetic.
static_assert(sizeof(kernels::Table) == sizeof(void*) * (1 + 18 + 2), "the table has a new entry");

std::vector<uint64_t> few() { return {5, 0, 640, 1, 4999, 64, 300, 4096}; }
std::vector<uint64_t> one() { return {70001}; }

uint64_t sum_of(const std::vector<uint64_t>& counts) {
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  return sum;
}

// One part of three.
Subset subset_of(const ParameterTable& table) {
  const TensorView& last = table.tensors[table.size - 1];
  return {18, last.first_block + (last.count + 63) / 64, 3, 1, 64, UINT64_MAX};
}

Call partition_pack(const std::vector<uint64_t>& counts, const Wire& wire, bool with_snapshot) {
  Call call("partition_pack");
  const ParameterTable* const table = call.add_table(counts, Encoding::kFloat32, 1);
  const Subset subset = subset_of(*table);
  const uint64_t count = cpu().subset_elements(*table, subset);
  const size_t bytes = encoded_bytes(wire.encoding, count);
  auto* const encoded = call.add(bytes, anything(bytes), bitwise(bytes));
  auto* const snapshot =
      with_snapshot ? call.add<float>(count * 4, anything(count * 4), bitwise(count * 4)) : nullptr;
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.partition_pack(*table, subset, wire, snapshot, encoded, on);
  });
  return call;
}

Call partition_unpack(const std::vector<uint64_t>& counts, Encoding encoding) {
  Call call("partition_unpack");
  const ParameterTable* const table = call.add_table(counts, Encoding::kBfloat16, 1);
  const Subset subset = subset_of(*table);
  const uint64_t count = cpu().subset_elements(*table, subset);
  auto* const encoded = call.add(encoded_bytes(encoding, count), numbers(count, 2, encoding));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.partition_unpack(*table, subset, encoding, encoded, on);
  });
  return call;
}

// Only one contribution is ever not finite, so that there is a mean.
Call average(Encoding encoding) {
  constexpr uint64_t kCount = 5001;
  constexpr uint32_t kMembers = 5;
  Call call("average");
  std::vector<const std::byte*> values;
  for (uint32_t r = 0; r < kMembers; ++r) {
    const Fill fill = numbers(kCount, r, encoding);
    values.push_back(call.add(encoded_bytes(encoding, kCount), [=](std::byte* to, Contents of) {
      fill(to, of == Contents::kNotFinite && r != 2 ? Contents::kOrdinary : of);
    }));
  }
  auto* const mean = call.add<float>(kCount * 4, anything(kCount * 4), alike(kCount));
  auto* const not_finite = call.add<uint64_t>(8, anything(8), bitwise(8));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    const float weights[kMembers] = {1, 2, 0.3F, 1, 1};
    kernels.average({values.data(), weights, kMembers, encoding}, kCount, mean, not_finite, on);
  });
  return call;
}

Call apply(const std::vector<uint64_t>& counts, Rule rule, Encoding encoding) {
  Call call("apply");
  const ParameterTable* const table = call.add_table(counts, Encoding::kFloat32, 1);
  const ParameterTable* const mirror = call.add_table(counts, Encoding::kBfloat16, 2);
  const Subset subset = subset_of(*table);
  const uint64_t count = cpu().subset_elements(*table, subset), elements = sum_of(counts);
  ApplyArrays arrays;
  arrays.snapshot = call.add<float>(count * 4, numbers(count, 3));
  arrays.mean = call.add<float>(count * 4, numbers(count, 4));
  arrays.own = lossless(encoding)
                   ? nullptr
                   : call.add(encoded_bytes(encoding, count), numbers(count, 5, encoding));
  arrays.encoding = encoding;
  arrays.mirror = mirror;
  if (rule == Rule::kEma) {
    const size_t words = subset.blocks / 64 + 1;
    arrays.ema = call.add<float>(elements * 4, numbers(elements, 6), alike(elements));
    arrays.visited = call.add<uint64_t>(words * 8, anything(words * 8), bitwise(words * 8));
  }
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    ApplyArgs args;
    args.rule = rule;
    kernels.apply(*table, subset, args, arrays, on);
  });
  return call;
}

// 0 but for one: that what is not sampled stays what it is.
Fill reference_numbers(uint64_t count) {
  const Fill fill = numbers(count, 2);
  return [=](std::byte* to, Contents contents) {
    fill(to, contents == Contents::kOther ? contents : Contents::kZero);
  };
}

Call top_change(const std::vector<uint64_t>& counts, bool weighted, uint64_t k) {
  Call call("top_change");
  const uint64_t elements = sum_of(counts);
  const ParameterTable* const table = call.add_table(counts, Encoding::kFloat32, 1);
  auto* const reference = call.add<float>(elements * 4, reference_numbers(elements));
  auto* const weight =
      weighted ? call.add<float>(elements * 4, positive_numbers(elements, 3)) : nullptr;
  auto* const threshold = call.add<Threshold>(sizeof(Threshold), anything(sizeof(Threshold)),
                                              bitwise(sizeof(Threshold::score)));
  auto* const indices = call.add<uint32_t>(k * 4, anything(k * 4), bitwise(k * 4));
  const size_t bytes =
      std::max(cpu().top_change_workspace(elements, k), cuda()->top_change_workspace(elements, k));
  auto* const workspace = call.add(bytes, anything(bytes));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.top_change({*table, reference, weight}, k, threshold, indices, workspace, on);
  });
  return call;
}

Call index_pack(const std::vector<uint64_t>& counts, const Wire& wire) {
  Call call("index_pack");
  const uint64_t elements = sum_of(counts), count = elements / 10;
  const ParameterTable* const table = call.add_table(counts, Encoding::kFloat32, 1);
  auto* const chosen = call.add<uint32_t>(count * 4, indices(count, elements));
  auto* const reference = call.add<float>(elements * 4, numbers(elements, 2), alike(elements));
  const size_t bytes = encoded_bytes(wire.encoding, count);
  auto* const encoded = call.add(bytes, anything(bytes), alike(count, wire.encoding));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.index_pack(*table, chosen, count, wire, {reference}, encoded, on);
  });
  return call;
}

Call index_unpack(const std::vector<uint64_t>& counts, Encoding encoding, bool accumulate) {
  Call call(accumulate ? "index_accumulate" : "index_unpack");
  const uint64_t elements = sum_of(counts), count = elements / 10;
  const ParameterTable* const table = call.add_table(counts, Encoding::kFloat16, 1);
  auto* const chosen = call.add<uint32_t>(count * 4, indices(count, elements));
  auto* const encoded = call.add(encoded_bytes(encoding, count), numbers(count, 2, encoding));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    if (accumulate) {
      kernels.index_accumulate(*table, chosen, count, encoding, encoded, 0.3F, on);
    } else {
      kernels.index_unpack(*table, chosen, count, encoding, encoded, on);
    }
  });
  return call;
}

Call encode_indices() {
  constexpr uint64_t kCount = 40000;
  Call call("encode_indices");
  auto* const from = call.add<uint32_t>(kCount * 4, indices(kCount, 1 << 24));
  auto* const bytes = call.add<uint64_t>(8, anything(8), bitwise(8));
  const size_t bound = index_stream_bound(kCount);
  // What lies beyond the stream is not compared.
  auto* const stream = call.add(bound, anything(bound), bitwise((kCount + 127) / 128 * 8));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.encode_indices(from, kCount, stream, bytes, on);
  });
  return call;
}

// A stream of as many bytes whatever the contents, in all but two of them a valid one.
Call decode_indices() {
  constexpr uint64_t kCount = 1280, kBlocks = kCount / kIndexBlock, kWords = 4 * kBlocks;
  constexpr size_t kBytes = (2 * kBlocks + kWords) * 4;
  Call call("decode_indices");
  auto* const stream = call.add(kBytes, [](std::byte* to, Contents contents) {
    std::vector<uint32_t> words(kBytes / 4, 0);
    for (uint32_t block = 0; block < kBlocks; ++block) {
      words[2 * block] = block * 1000 + static_cast<uint32_t>(contents);
      words[2 * block + 1] = 4 * (block + 1);
      words[2 * kBlocks + 4 * block] = 0x55550000U;  // gaps of one bit
    }
    if (contents == Contents::kNotFinite) words[2] = 0;
    if (contents == Contents::kUnsampled) words[3] = 7;
    memcpy(to, words.data(), kBytes);
  });
  auto* const valid = call.add<uint32_t>(4, anything(4), bitwise(4));
  auto* const to = call.add<uint32_t>(kCount * 4, anything(kCount * 4));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.decode_indices(stream, kBytes, kCount, 1 << 20, to, valid, on);
  });
  return call;
}

Call nadamw(Encoding storage) {
  constexpr uint64_t kCount = 20000;
  const size_t bytes = encoded_bytes(storage, kCount);
  Call call("nadamw");
  NadamwArrays arrays;
  arrays.storage = storage;
  arrays.w = call.add(bytes, numbers(kCount, 1, storage), alike(kCount, storage));
  arrays.gradient = call.add(bytes, numbers(kCount, 2, storage));
  arrays.m = call.add<float>(kCount * 4, numbers(kCount, 3), alike(kCount));
  arrays.v = call.add<float>(kCount * 4, positive_numbers(kCount, 4), alike(kCount));
  arrays.mirror_storage = Encoding::kBfloat16;
  arrays.mirror = call.add(kCount * 2, anything(kCount * 2), alike(kCount, Encoding::kBfloat16));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    NadamwArgs args;
    args.lr = args.gradient_factor = args.momentum_factor = 1e-3;
    kernels.nadamw(arrays, kCount, args, on);
  });
  return call;
}

Call look_ahead() {
  constexpr uint64_t kCount = 20003;
  Call call("look_ahead");
  auto* const w = call.add<float>(kCount * 4, numbers(kCount, 1));
  auto* const previous = call.add<float>(kCount * 4, numbers(kCount, 2));
  auto* const point = call.add<float>(kCount * 4, anything(kCount * 4), alike(kCount));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.look_ahead(w, previous, kCount, 0.7F, point, on);
  });
  return call;
}

Call nesterov() {
  constexpr uint64_t kCount = 20003;
  Call call("nesterov");
  auto* const w = call.add<float>(kCount * 4, numbers(kCount, 1), alike(kCount));
  auto* const previous = call.add<float>(kCount * 4, numbers(kCount, 2), alike(kCount));
  auto* const gradient = call.add<float>(kCount * 4, numbers(kCount, 3));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.nesterov(w, previous, gradient, kCount, 0.9F, 0.01F, on);
  });
  return call;
}

Call table_ema(const std::vector<uint64_t>& counts) {
  Call call("table_ema");
  const uint64_t elements = sum_of(counts);
  const ParameterTable* const table = call.add_table(counts, Encoding::kFloat16, 1);
  auto* const mean = call.add<float>(elements * 4, numbers(elements, 2), alike(elements));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.table_ema(*table, 0.99F, mean, on);
  });
  return call;
}

Call sum_of_squares() {
  constexpr uint64_t kCount = 9999;
  Call call("sum_of_squares");
  auto* const values = call.add<float>(kCount * 4, numbers(kCount, 1));
  auto* const sums = call.add<double>(kSumSlots * 8, anything(kSumSlots * 8), near_sums(1));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.sum_of_squares(values, kCount, sums, on);
  });
  return call;
}

Call compare(const std::vector<uint64_t>& counts) {
  Call call("compare");
  const ParameterTable* const first = call.add_table(counts, Encoding::kFloat32, 1);
  const ParameterTable* const second = call.add_table(counts, Encoding::kBfloat16, 2);
  auto* const sums = call.add<double>(kSumSlots * 8, anything(kSumSlots * 8), near_sums(4));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.compare(*first, *second, sums, on);
  });
  return call;
}

Call quantise(const Wire& wire) {
  constexpr uint64_t kCount = 9999;
  const size_t bytes = encoded_bytes(wire.encoding, kCount);
  Call call("quantise");
  auto* const values = call.add<float>(kCount * 4, numbers(kCount, 1));
  auto* const encoded = call.add(bytes, anything(bytes), bitwise(bytes));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.quantise(values, kCount, wire, kGroup, encoded, on);
  });
  return call;
}

Call dequantise(Encoding encoding) {
  constexpr uint64_t kCount = 9999;
  Call call("dequantise");
  auto* const encoded = call.add(encoded_bytes(encoding, kCount), numbers(kCount, 1, encoding));
  auto* const values = call.add<float>(kCount * 4, anything(kCount * 4), alike(kCount));
  call.set_run([=](const kernels::Table& kernels, const Execution& on) {
    kernels.dequantise(encoded, kCount, encoding, values, on);
  });
  return call;
}

}  // namespace

const ParameterTable* Call::add_table(const std::vector<uint64_t>& counts, Encoding storage,
                                      uint32_t seed) {
  const uint64_t elements = sum_of(counts);
  const size_t word = encoded_bytes(storage, 1);
  auto* const data =
      add(elements * word, numbers(elements, seed, storage), alike(elements, storage));
  OwnedTable& owned = *tables_.emplace_back(std::make_unique<OwnedTable>());
  uint64_t element = 0, block = 0;
  for (const uint64_t count : counts) {
    owned.tensors.push_back({data + element * word, count, block});
    element += count;
    block += (count + 63) / 64;
  }
  owned.table = {owned.tensors.data(), static_cast<uint32_t>(counts.size()), storage};
  return &owned.table;
}

testing::AssertionResult Call::agrees(const Call& other) const {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i].agree == nullptr) continue;
    if (memory_[i].agree(memory_[i].bytes.data(), other.memory_[i].bytes.data())) continue;
    return testing::AssertionFailure() << name_ << ": array " << i << " differs";
  }
  return testing::AssertionSuccess();
}

std::vector<Call> every_call() {
  constexpr Wire kStochastic = {Encoding::kInt4, Rounding::kStochastic, 99};
  std::vector<Call> calls;
  for (const auto& counts : {few(), many_counts()}) {
    calls.push_back(partition_pack(counts, {Encoding::kBfloat16}, true));
    calls.push_back(partition_pack(counts, {Encoding::kInt8}, true));
    calls.push_back(partition_pack(counts, kStochastic, false));
    calls.push_back(partition_unpack(counts, Encoding::kInt8));
    calls.push_back(apply(counts, Rule::kEma, Encoding::kBfloat16));
    calls.push_back(apply(counts, Rule::kDelta, Encoding::kFloat32));
    calls.push_back(top_change(counts, false, 1000));
    calls.push_back(index_pack(counts, {Encoding::kBfloat16}));
    calls.push_back(index_pack(counts, kStochastic));
    calls.push_back(index_unpack(counts, Encoding::kFloat32, false));
    calls.push_back(index_unpack(counts, Encoding::kInt4, true));
    calls.push_back(table_ema(counts));
    calls.push_back(compare(counts));
  }
  for (const uint64_t k : {0, 3500}) calls.push_back(top_change(one(), k != 0, k));
  calls.push_back(encode_indices());
  calls.push_back(decode_indices());
  calls.push_back(look_ahead());
  calls.push_back(nesterov());
  calls.push_back(sum_of_squares());
  for (const Encoding storage : kStorages) calls.push_back(nadamw(storage));
  for (const Encoding encoding : kEncodings) {
    calls.push_back(average(encoding));
    calls.push_back(quantise({encoding}));
    calls.push_back(dequantise(encoding));
  }
  return calls;
}

}  // namespace asyncmesh::kernels::backend
