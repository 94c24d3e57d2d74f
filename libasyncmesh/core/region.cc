#include "core/region.h"

#include <fmt/format.h>

#include <algorithm>

namespace asyncmesh::core {

static_assert(static_cast<int>(DataType::kFloat32) ==
              static_cast<int>(kernels::Encoding::kFloat32));
static_assert(static_cast<int>(DataType::kBfloat16) ==
              static_cast<int>(kernels::Encoding::kBfloat16));
static_assert(static_cast<int>(DataType::kFloat16) ==
              static_cast<int>(kernels::Encoding::kFloat16));

namespace {

uint64_t element_bytes(uint32_t dtype) {
  switch (static_cast<DataType>(dtype)) {
    case DataType::kFloat32:
      return 4;
    case DataType::kBfloat16:
    case DataType::kFloat16:
      return 2;
    case DataType::kInt64:
      return 8;
    case DataType::kUint8:
      return 1;
  }
  return 0;
}

Status check_one(const Tensor& tensor, size_t index) {
  const auto wrong = [index](const std::string& what) {
    return Status(Code::kInvalidArgument, fmt::format("tensor {}: {}", index, what));
  };
  const uint64_t bytes = element_bytes(tensor.dtype);
  if (bytes == 0) return wrong(fmt::format("unknown dtype {}", tensor.dtype));
  if (tensor.device >= 0)
    return Status(Code::kUnsupported,
                  fmt::format("tensor {}: device {}: regions in GPU memory are not supported by "
                              "this version",
                              index, tensor.device));
  if (tensor.count == 0) return wrong("count 0");
  if (tensor.data == nullptr) return wrong("null data");
  if (tensor.count > (UINT64_MAX >> 4)) return wrong("count out of range");
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (address % std::min<uint64_t>(bytes, 4) != 0) return wrong("data is not aligned");
  if (tensor.count * bytes > UINTPTR_MAX - address) return wrong("count out of range");
  return {};
}

// "tensors 3 and 7 <what>", or ok, by comparing neighbours in `order`.
template <typename Clash>
Status check_pairs(std::span<const Tensor> tensors, const std::vector<size_t>& order,
                   const char* what, Clash clash) {
  for (size_t i = 1; i < order.size(); ++i) {
    if (clash(tensors[order[i - 1]], tensors[order[i]]))
      return Status(Code::kInvalidArgument,
                    fmt::format("tensors {} and {} {}", std::min(order[i - 1], order[i]),
                                std::max(order[i - 1], order[i]), what));
  }
  return {};
}

Status check(std::span<const Tensor> tensors) {
  if (tensors.empty()) return Status(Code::kInvalidArgument, "a region needs at least one tensor");
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    ASYNCMESH_RETURN_IF_ERROR(check_one(tensors[i], i));
    order[i] = i;
  }
  std::sort(order.begin(), order.end(),
            [&](size_t left, size_t right) { return tensors[left].id < tensors[right].id; });
  ASYNCMESH_RETURN_IF_ERROR(
      check_pairs(tensors, order, "have the same id",
                  [](const Tensor& left, const Tensor& right) { return left.id == right.id; }));
  std::sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return reinterpret_cast<uintptr_t>(tensors[left].data) <
           reinterpret_cast<uintptr_t>(tensors[right].data);
  });
  return check_pairs(tensors, order, "overlap", [](const Tensor& left, const Tensor& right) {
    return reinterpret_cast<uintptr_t>(left.data) + left.count * element_bytes(left.dtype) >
           reinterpret_cast<uintptr_t>(right.data);
  });
}

}  // namespace

Region::Region(std::shared_ptr<Context> context, std::span<const Tensor> tensors)
    : context_(std::move(context)) {
  take(tensors);
}

Result<std::shared_ptr<Region>> Region::create(std::shared_ptr<Context> context,
                                               std::span<const Tensor> tensors) {
  ASYNCMESH_RETURN_IF_ERROR(check(tensors));
  return std::shared_ptr<Region>(new Region(std::move(context), tensors));
}

void Region::take(std::span<const Tensor> tensors) {
  views_.resize(tensors.size());
  identities_.resize(tensors.size());
  elements_ = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    views_[i] = {tensors[i].data, tensors[i].count, 0};
    identities_[i] = {tensors[i].id, tensors[i].count, tensors[i].dtype, 0};
    elements_ += tensors[i].count;
  }
  ++generation_;
}

Status Region::rebind(std::span<const Tensor> tensors) {
  ASYNCMESH_RETURN_IF_ERROR(check(tensors));
  if (tensors.size() != identities_.size())
    return Status(Code::kMismatch,
                  fmt::format("{} tensors, the region has {}", tensors.size(), identities_.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].id != identities_[i].id || tensors[i].count != identities_[i].count ||
        tensors[i].dtype != identities_[i].dtype)
      return Status(Code::kMismatch,
                    fmt::format("tensor {}: id, count or dtype differ from the region's", i));
  }
  take(tensors);
  return {};
}

Status Region::need_table(const std::string& role) const {
  for (size_t i = 0; i < identities_.size(); ++i) {
    if (identities_[i].dtype > static_cast<uint32_t>(DataType::kFloat16))
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: tensor {} is none of FLOAT32, BFLOAT16 and FLOAT16", role, i));
    if (identities_[i].dtype != identities_[0].dtype)
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: tensors 0 and {} have different dtypes", role, i));
  }
  return {};
}

Status Region::need_layout(const Region& other, const std::string& role) const {
  if (other.identities_.size() != identities_.size())
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: {} tensors instead of {}", role, other.identities_.size(),
                              identities_.size()));
  for (size_t i = 0; i < identities_.size(); ++i) {
    if (other.identities_[i].count != identities_[i].count ||
        other.identities_[i].id != identities_[i].id)
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: tensor {} has another count or id", role, i));
  }
  return {};
}

Status Region::need_mirror(const Region& other, const std::string& role) const {
  ASYNCMESH_RETURN_IF_ERROR(other.need_table(role));
  return need_layout(other, role);
}

}  // namespace asyncmesh::core
