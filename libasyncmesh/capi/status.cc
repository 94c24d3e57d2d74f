// Version, status names and the last error; and the proof that the public numbers are ours.
#include <cstring>

#include "capi/guard.h"
#include "core/version.h"

namespace {

using asyncmesh::Code;

#define ASYNCMESH_SAME(name, code) static_assert((name) == static_cast<int32_t>(Code::code))
ASYNCMESH_SAME(ASYNCMESH_OK, kOk);
ASYNCMESH_SAME(ASYNCMESH_AGAIN, kAgain);
ASYNCMESH_SAME(ASYNCMESH_TIMEOUT, kTimeout);
ASYNCMESH_SAME(ASYNCMESH_INVALID_ARGUMENT, kInvalidArgument);
ASYNCMESH_SAME(ASYNCMESH_INVALID_STATE, kInvalidState);
ASYNCMESH_SAME(ASYNCMESH_UNSUPPORTED, kUnsupported);
ASYNCMESH_SAME(ASYNCMESH_TOO_LARGE, kTooLarge);
ASYNCMESH_SAME(ASYNCMESH_NO_MEMORY, kNoMemory);
ASYNCMESH_SAME(ASYNCMESH_CANCELED, kCanceled);
ASYNCMESH_SAME(ASYNCMESH_MISMATCH, kMismatch);
ASYNCMESH_SAME(ASYNCMESH_REFUSED, kRefused);
ASYNCMESH_SAME(ASYNCMESH_PEER_LOST, kPeerLost);
ASYNCMESH_SAME(ASYNCMESH_LINK_ERROR, kLinkError);
ASYNCMESH_SAME(ASYNCMESH_SYSTEM, kSystem);
ASYNCMESH_SAME(ASYNCMESH_INTERNAL, kInternal);
#undef ASYNCMESH_SAME
static_assert(ASYNCMESH_ABI_REVISION == asyncmesh::core::kAbiRevision);

}  // namespace

uint32_t asyncmesh_abi_revision(void) ASYNCMESH_NOEXCEPT { return ASYNCMESH_ABI_REVISION; }

const char* asyncmesh_version_string(void) ASYNCMESH_NOEXCEPT {
  return asyncmesh::core::version_text();
}

const char* asyncmesh_status_name(asyncmesh_status_t status) ASYNCMESH_NOEXCEPT {
  switch (status) {
    case ASYNCMESH_OK:
      return "OK";
    case ASYNCMESH_AGAIN:
      return "AGAIN";
    case ASYNCMESH_TIMEOUT:
      return "TIMEOUT";
    case ASYNCMESH_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case ASYNCMESH_INVALID_STATE:
      return "INVALID_STATE";
    case ASYNCMESH_UNSUPPORTED:
      return "UNSUPPORTED";
    case ASYNCMESH_TOO_LARGE:
      return "TOO_LARGE";
    case ASYNCMESH_NO_MEMORY:
      return "NO_MEMORY";
    case ASYNCMESH_CANCELED:
      return "CANCELED";
    case ASYNCMESH_MISMATCH:
      return "MISMATCH";
    case ASYNCMESH_REFUSED:
      return "REFUSED";
    case ASYNCMESH_PEER_LOST:
      return "PEER_LOST";
    case ASYNCMESH_LINK_ERROR:
      return "LINK_ERROR";
    case ASYNCMESH_SYSTEM:
      return "SYSTEM";
    case ASYNCMESH_INTERNAL:
      return "INTERNAL";
    default:
      return "UNKNOWN";
  }
}

const char* asyncmesh_last_error(void) ASYNCMESH_NOEXCEPT { return asyncmesh::capi::last_error(); }
