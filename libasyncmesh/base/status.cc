#include "base/status.h"

namespace asyncmesh {

std::string_view code_text(Code code) noexcept {
  switch (code) {
#define ASYNCMESH_STATUS_TEXT(name, value, text) \
  case Code::k##name:                            \
    return text;
    ASYNCMESH_STATUS_LIST(ASYNCMESH_STATUS_TEXT)
#undef ASYNCMESH_STATUS_TEXT
  }
  return "unknown status";
}

std::string_view code_name(Code code) noexcept {
  switch (code) {
#define ASYNCMESH_STATUS_NAME(name, value, text) \
  case Code::k##name:                            \
    return #name;
    ASYNCMESH_STATUS_LIST(ASYNCMESH_STATUS_NAME)
#undef ASYNCMESH_STATUS_NAME
  }
  return "Unknown";
}

}  // namespace asyncmesh
