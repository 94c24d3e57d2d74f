#include "capi/handles.h"

namespace asyncmesh::capi {

Status null_handle(const char* name) {
  return Status(Code::kInvalidArgument, std::string(name) + " is null");
}

Status inherited_handle(const char* name) {
  return Status(Code::kInvalidState,
                std::string(name) + " belongs to the parent process: handles do not survive fork");
}

}  // namespace asyncmesh::capi
