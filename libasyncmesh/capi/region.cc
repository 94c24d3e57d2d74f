#include <vector>

#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/versioned.h"

using namespace asyncmesh;
using namespace asyncmesh::capi;

namespace {

static_assert(ASYNCMESH_FLOAT32 == static_cast<int>(core::DataType::kFloat32));
static_assert(ASYNCMESH_BFLOAT16 == static_cast<int>(core::DataType::kBfloat16));
static_assert(ASYNCMESH_FLOAT16 == static_cast<int>(core::DataType::kFloat16));
static_assert(ASYNCMESH_INT64 == static_cast<int>(core::DataType::kInt64));
static_assert(ASYNCMESH_UINT8 == static_cast<int>(core::DataType::kUint8));

Status read_tensors(const asyncmesh_tensor_t* tensors, uint32_t count,
                    std::vector<core::Tensor>* out) {
  if (tensors == nullptr) return invalid("tensors is null");
  if (count == 0) return invalid("tensor_count is 0");
  ASYNCMESH_RETURN_IF_ERROR(check_size(tensors));
  const uint32_t stride = tensors->struct_size;
  out->reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    asyncmesh_tensor_t mine{};
    // Only the first element needs to say its size; the others have the same.
    ASYNCMESH_RETURN_IF_ERROR(copy_in(element(tensors, stride, i), stride, &mine));
    if (mine.reserved != 0) return invalid("reserved of a tensor is not 0");
    out->push_back({mine.data, mine.count, mine.id, mine.dtype, mine.device});
  }
  return {};
}

}  // namespace

asyncmesh_status_t asyncmesh_region_create(asyncmesh_context_t* context,
                                           const asyncmesh_tensor_t* tensors, uint32_t tensor_count,
                                           asyncmesh_region_t** region_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(context, "context"));
    if (region_out == nullptr) return invalid("region_out is null");
    std::vector<core::Tensor> mine;
    ASYNCMESH_RETURN_IF_ERROR(read_tensors(tensors, tensor_count, &mine));
    auto region = core::Region::create(context->object, mine);
    if (!region.ok()) return region.status();
    *region_out = new asyncmesh_region{std::move(region.value())};
    return {};
  });
}

asyncmesh_status_t asyncmesh_region_rebind(asyncmesh_region_t* region,
                                           const asyncmesh_tensor_t* tensors,
                                           uint32_t tensor_count) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(region, "region"));
    std::vector<core::Tensor> mine;
    ASYNCMESH_RETURN_IF_ERROR(read_tensors(tensors, tensor_count, &mine));
    return region->object->rebind(mine);
  });
}

void asyncmesh_region_destroy(asyncmesh_region_t* region) ASYNCMESH_NOEXCEPT { destroy(region); }
