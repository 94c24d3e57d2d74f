#include "core/version.h"

namespace asyncmesh::core {

const char* version_text() noexcept { return ASYNCMESH_VERSION_TEXT; }

}  // namespace asyncmesh::core
