// asyncmesh_region_t: a parameter table in the caller's memory.
//
// The caller keeps the memory alive and in place, and tells when tensors moved (`rebind`); objects
// that use the region compare `generation` before each use and follow. Not thread-safe against
// `rebind`, as the public contract says.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "averaging/fingerprint.h"
#include "base/status.h"
#include "core/context.h"
#include "kernels/kernels.h"

namespace asyncmesh::core {

enum class DataType : uint32_t {
  kFloat32 = 0,
  kBfloat16 = 1,
  kFloat16 = 2,
  kInt64 = 3,
  kUint8 = 4
};

struct Tensor {
  void* data = nullptr;
  uint64_t count = 0;
  uint64_t id = 0;
  uint32_t dtype = 0;
  int32_t device = -1;
};

class Region {
 public:
  static Result<std::shared_ptr<Region>> create(std::shared_ptr<Context> context,
                                                std::span<const Tensor> tensors);

  Status rebind(std::span<const Tensor> tensors);  // kMismatch: other ids, counts or dtypes

  Context& context() const { return *context_; }
  uint64_t generation() const { return generation_; }
  uint64_t elements() const { return elements_; }
  size_t tensors() const { return views_.size(); }
  // What averager and optimiser work on; only after need_table. `first_block` is not set.
  kernels::ParameterTable table() const {
    return {.tensors = views_.data(),
            .size = static_cast<uint32_t>(views_.size()),
            .storage = static_cast<kernels::Encoding>(identities_[0].dtype)};
  }
  std::span<const TensorIdentity> identities() const { return identities_; }
  // Ok, or why this is no table, all of FLOAT32, BFLOAT16 or FLOAT16; `role` names it in the text.
  Status need_table(const std::string& role) const;
  // Ok, or why `other` has not the same tensors in the same order, of whatever dtype.
  Status need_layout(const Region& other, const std::string& role) const;
  // Ok, or why `other` is no table of the same layout: what can mirror this one.
  Status need_mirror(const Region& other, const std::string& role) const;

 private:
  Region(std::shared_ptr<Context> context, std::span<const Tensor> tensors);
  void take(std::span<const Tensor> tensors);

  std::shared_ptr<Context> context_;
  std::vector<kernels::TensorView> views_;
  std::vector<TensorIdentity> identities_;
  uint64_t elements_ = 0;
  uint64_t generation_ = 0;
};

}  // namespace asyncmesh::core
