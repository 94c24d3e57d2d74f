// Creation of a UCP context with the settings that the protocol above relies on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/ucx/ucx_handles.h"

namespace asyncmesh::transport {

// Messages up to this size travel eagerly, in one fragment; larger ones by rendezvous.
inline constexpr uint32_t kEagerBytes = 8000;

struct UcxContextRequest {
  uint64_t features = 0;     // UCP_FEATURE_*
  std::string tls;           // UCX_TLS syntax; empty: the user's UCX_TLS, else all
  std::string net_devices;   // empty: the user's UCX_NET_DEVICES, else all
  size_t request_bytes = 0;  // private bytes in each request that UCP allocates
};

// UCX reads its environment here, and only here.
Result<UniqueUcpContext> open_ucp_context(const UcxContextRequest& request);

// "tcp/eth0", "posix/memory", ... as UCX lists them for this context.
std::vector<std::string> ucp_context_resources(ucp_context_h context);

// kInvalidArgument: not one of "auto", "shm" and "tcp".
Status check_tls(std::string_view tls);

// UCX_TLS for the rma engine: the transports with native RMA that `tls` ("auto", "shm", "tcp") and
// the user's UCX_TLS allow. Empty: none is left. `user_tls` is the value of UCX_TLS ("" if unset),
// `has_verbs` whether an InfiniBand or RoCE device exists.
std::string native_rma_tls(std::string_view tls, std::string_view user_tls, bool has_verbs);

// Whether the kernel knows an InfiniBand or RoCE device. Asking UCX for rc without one makes it
// complain.
bool has_verbs_device();

}  // namespace asyncmesh::transport
