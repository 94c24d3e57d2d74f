// Values at explicit indices: index_pack, index_unpack, index_accumulate.
//
// By runs of kGroup values, through buffers in the first-level cache: gathering has its misses in
// flight together, and what is in the buffers is converted with vectors.
#include <algorithm>

#include "kernels/cpu/element_cursor.h"
#include "kernels/cpu/float_environment.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/quantise.h"
#include "kernels/cpu/selection_cpu.h"
#include "kernels/cpu/spread.h"

namespace asyncmesh::kernels {
namespace {

struct Run {
  const uint32_t* indices;
  uint64_t count;  // 1 to kGroup
  uint64_t ahead;  // indices behind these
};

// Indices [begin, end) of a run lie in one tensor, which starts at element `first`.
template <typename Word>
struct Part {
  Word* words;
  uint64_t first;
  uint64_t begin, end;

  Word& at(const Run& run, uint64_t i) const { return words[run.indices[i] - first]; }
};

// Calls visit(i) for the part's indices, and asks for the memory that the ones behind will need.
template <typename Word, typename Visit>
void visit_ahead(const Part<Word>& part, const Run& run, const Visit& visit) noexcept {
  constexpr uint64_t kDistance = 128;  // indices: the misses that memory has under way
  constexpr uint64_t kDense = 12;      // elements from one to the next: the hardware follows
  const uint64_t known = run.count + run.ahead;
  const bool dense = run.indices[run.count - 1] - run.indices[0] < run.count * kDense;
  const uint64_t until = dense || known < kDistance ? 0 : std::min(part.end, known - kDistance);
  const auto base = reinterpret_cast<uintptr_t>(part.words) - part.first * sizeof(Word);
  uint64_t i = part.begin;
  for (; i < until; ++i) {
    const uint64_t later = run.indices[i + kDistance] * sizeof(Word);
    prefetch_line(reinterpret_cast<const std::byte*>(base + later));
    visit(i);
  }
  for (; i < part.end; ++i) visit(i);
}

// Calls visit(part) for the parts of a run.
template <typename Word, typename Visit>
void for_each_tensor(ElementCursor& cursor, const Run& run, const Visit& visit) noexcept {
  for (uint64_t begin = 0; begin < run.count;) {
    cursor.seek(run.indices[begin]);
    uint64_t end = run.count;
    if (run.indices[end - 1] >= cursor.end()) {
      end = begin + 1;
      while (run.indices[end] < cursor.end()) ++end;
    }
    visit(Part<Word>{static_cast<Word*>(cursor.tensor().data), cursor.begin(), begin, end});
    begin = end;
  }
}

template <typename Word>
void gather(ElementCursor& cursor, const Run& run, Word* out) noexcept {
  for_each_tensor<Word>(cursor, run, [&](const Part<Word>& part) {
    visit_ahead(part, run, [&](uint64_t i) { out[i] = part.at(run, i); });
  });
}

template <typename Word>
void scatter(ElementCursor& cursor, const Run& run, const Word* from) noexcept {
  for_each_tensor<Word>(cursor, run, [&](const Part<Word>& part) {
    visit_ahead(part, run, [&](uint64_t i) { part.at(run, i) = from[i]; });
  });
}

// The table's elements of one run after the other, as floats. Indices ascend.
class TableValues {
 public:
  explicit TableValues(const ParameterTable& table) noexcept
      : storage_(table.storage), reading_(table), writing_(table) {}

  void read(const Run& run, float* values) noexcept {
    if (lossless(storage_)) return gather(reading_, run, values);
    gather(reading_, run, words_);
    dequantise_values(reinterpret_cast<const std::byte*>(words_), storage_, 0, run.count, values);
  }
  void write(const Run& run, const float* values) noexcept {
    if (lossless(storage_)) return scatter(writing_, run, values);
    quantise_values(values, run.count, {storage_}, 0, reinterpret_cast<std::byte*>(words_));
    scatter(writing_, run, words_);
  }

 private:
  Encoding storage_;
  ElementCursor reading_, writing_;
  uint16_t words_[kGroup];
};

// body(run, number of its first value) for the runs of [begin, end).
template <typename Body>
void for_each_run(const uint32_t* indices, uint64_t begin, uint64_t end, const Body& body) {
  for (uint64_t first = begin; first < end; first += kGroup) {
    const uint64_t count = std::min<uint64_t>(kGroup, end - first);
    body(Run{indices + first, count, end - first - count}, first);
  }
}

void subtract(const Run& run, const float* reference, float* values) noexcept {
  const Part<const float> part = {reference, 0, 0, run.count};
  visit_ahead(part, run, [&](uint64_t i) { values[i] -= part.at(run, i); });
}

void advance(const Run& run, const float* values, float* reference) noexcept {
  for (uint64_t i = 0; i < run.count; ++i) reference[run.indices[i]] += values[i];
}

}  // namespace

void cpu_index_pack(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                    const Wire& wire, const Feedback& feedback, std::byte* encoded,
                    const Execution& on) {
  spread_elements(on.workers, count, [&](uint64_t begin, uint64_t end) {
    const DefaultFloatEnvironment environment;
    TableValues table_values(table);
    for_each_run(indices, begin, end, [&](const Run& run, uint64_t first) {
      float values[kGroup];
      std::byte* const out = encoded + encoded_bytes(wire.encoding, first);
      table_values.read(run, values);
      if (feedback.reference != nullptr) subtract(run, feedback.reference, values);
      quantise_values(values, run.count, wire, first, out);
      if (feedback.reference == nullptr) return;
      if (!lossless(wire.encoding)) dequantise_values(out, wire.encoding, 0, run.count, values);
      advance(run, values, feedback.reference);
    });
  });
}

void cpu_index_unpack(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                      Encoding encoding, const std::byte* encoded, const Execution& on) {
  spread_elements(on.workers, count, [&](uint64_t begin, uint64_t end) {
    const DefaultFloatEnvironment environment;
    TableValues table_values(table);
    for_each_run(indices, begin, end, [&](const Run& run, uint64_t first) {
      float values[kGroup];
      dequantise_values(encoded + encoded_bytes(encoding, first), encoding, 0, run.count, values);
      table_values.write(run, values);
    });
  });
}

void cpu_index_accumulate(const ParameterTable& table, const uint32_t* indices, uint64_t count,
                          Encoding encoding, const std::byte* encoded, float weight,
                          const Execution& on) {
  spread_elements(on.workers, count, [&](uint64_t begin, uint64_t end) {
    const DefaultFloatEnvironment environment;
    TableValues table_values(table);
    for_each_run(indices, begin, end, [&](const Run& run, uint64_t first) {
      float values[kGroup], sums[kGroup];
      dequantise_values(encoded + encoded_bytes(encoding, first), encoding, 0, run.count, values);
      table_values.read(run, sums);
      for (uint64_t i = 0; i < run.count; ++i) sums[i] += weight * values[i];
      table_values.write(run, sums);
    });
  });
}

}  // namespace asyncmesh::kernels
