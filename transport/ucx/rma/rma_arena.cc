#include "transport/ucx/rma/rma_arena.h"

#include <cstring>

#include "transport/ucx/rma/segment_guard.h"
#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {

Result<UcpMemory> allocate_arena(ucp_context_h context, const RmaLayout& layout) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.length = layout.bytes();
  params.flags = UCP_MEM_MAP_ALLOCATE;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  ucp_mem_h handle = nullptr;
  ucs_status_t status = ucp_mem_map(context, &params, &handle);
  if (status != UCS_OK) return ucx_error(Code::kNoMemory, "allocating the slots of a lane", status);
  UcpMemory arena(context, handle, {});

  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  status = ucp_mem_query(handle, &attributes);
  if (status != UCS_OK)
    return ucx_error(Code::kSystem, "asking UCX for the slots of a lane", status);
  std::memset(attributes.address, 0, layout.bytes());
  arena.set_bytes({static_cast<std::byte*>(attributes.address), layout.bytes()});
  return arena;
}

Result<Bytes> make_rma_offer(ucp_context_h context, const UcpMemory& arena, UcxOffer offer,
                             std::span<const std::byte> worker) {
  void* packed = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = ucp_rkey_pack(context, arena.handle(), &packed, &bytes);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "packing a remote key", status);
  const UniqueUcpBuffer buffer(packed);
  offer.arena = reinterpret_cast<uint64_t>(arena.bytes().data());
  offer.segment = sysv_segment_at(arena.bytes().data());
  return pack(offer, worker, {static_cast<const std::byte*>(packed), bytes});
}

}  // namespace asyncmesh::transport
