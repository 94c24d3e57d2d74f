#include "transport/ucx/ucx_info.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "transport/ucx/ucx_context.h"

namespace asyncmesh::transport {

UcxInfo ucx_info() {
  UcxInfo info;
  info.version = ucp_get_version_string();
  info.built_against = fmt::format("{}.{}", UCP_API_MAJOR, UCP_API_MINOR);
  Dl_info where{};
  if (dladdr(reinterpret_cast<const void*>(&ucp_get_version_string), &where) != 0 &&
      where.dli_fname != nullptr) {
    info.path = where.dli_fname;
  }
  UcxContextRequest request;
  request.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  auto context = open_ucp_context(request);
  if (context.ok()) {
    info.resources = ucp_context_resources(context.value().get());
  } else {
    info.error = context.status().text();
  }
  return info;
}

}  // namespace asyncmesh::transport
