// What is measured: a call of the CUDA table and the bytes that it has to move.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels::bench {

struct Case {
  std::string name;
  uint64_t bytes;  // read and written, at least
  std::function<void()> call;
  std::function<void()> prepare = [] {};  // once, before calls are timed
  double goal = 0.85;                     // of a copy's bandwidth; 0: none
};

// A model of `parameters` fp32 values on the device, and everything that the calls need.
class Bench {
 public:
  // Of device memory per parameter, at most.
  static constexpr uint64_t kBytesPerParameter = 36;

  Bench(uint64_t parameters, cudaStream_t stream);

  std::vector<Case> cases();

 private:
  void add_subset(std::vector<Case>& cases);
  void add_selection(std::vector<Case>& cases);
  void add_dense(std::vector<Case>& cases);
  void add_wire(std::vector<Case>& cases);
  // Before a call: `members` runs of encoded values.
  std::function<void()> encoded(Encoding encoding, uint32_t members);
  // The next part: no call finds its blocks in the cache.
  const Subset& rotate();

  const Table& kernels_;
  Execution on_;
  uint64_t parameters_;
  Buffer<float> w_, reference_, ema_, gradient_, moment_, packed_, mean_;
  Buffer<std::byte> encoded_, mirror_, workspace_;
  Buffer<uint32_t> indices_;
  Buffer<uint64_t> words_, visited_;
  Buffer<double> sums_;
  Buffer<Threshold> threshold_;
  std::vector<TensorView> tensors_, mirrors_;
  ParameterTable table_, mirror_table_;
  Subset subset_;
  std::vector<const std::byte*> contributions_;
};

}  // namespace asyncmesh::kernels::bench
