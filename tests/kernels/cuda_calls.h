// A call of each entry of the table, on memory whose contents can be replaced: what the tests of
// the launches (cuda_launches_test.cc) and of graphs (cuda_graph_test.cc) make.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/call_contents.h"

namespace asyncmesh::kernels::backend {

// Arguments that stay the same, and the memory that they name. What the memory holds before fill()
// is unspecified.
class Call {
 public:
  using Run = std::function<void(const kernels::Table& kernels, const Execution& on)>;

  explicit Call(std::string name) : name_(std::move(name)) {}
  Call(Call&&) = default;

  // Memory, what it is filled with, and when two calls agree about it (null: always).
  template <typename T = std::byte>
  T* add(size_t bytes, Fill fill, Agree agree = nullptr) {
    memory_.push_back(
        {Array<std::byte>(bytes != 0 ? bytes : 1), std::move(fill), std::move(agree)});
    return reinterpret_cast<T*>(memory_.back().bytes.data());
  }
  // Tensors of random values, in blocks of 64. It lives as long as the call.
  const ParameterTable* add_table(const std::vector<uint64_t>& counts, Encoding storage,
                                  uint32_t seed);
  void set_run(Run run) { run_ = std::move(run); }

  const std::string& name() const { return name_; }
  void fill(Contents contents) {
    for (Memory& memory : memory_) memory.fill(memory.bytes.data(), contents);
  }
  void run(const kernels::Table& kernels, const Execution& on) const { run_(kernels, on); }
  // Both were filled alike and have run; bitwise but for which NaN it is, and for sums.
  testing::AssertionResult agrees(const Call& other) const;

 private:
  struct Memory {
    Array<std::byte> bytes;
    Fill fill;
    Agree agree;
  };
  struct OwnedTable {
    std::vector<TensorView> tensors;
    ParameterTable table;
  };

  std::string name_;
  std::vector<Memory> memory_;
  std::vector<std::unique_ptr<OwnedTable>> tables_;
  Run run_;
};

// Every entry that takes an Execution, some with several arguments. Equal ones each time.
std::vector<Call> every_call();

}  // namespace asyncmesh::kernels::backend
