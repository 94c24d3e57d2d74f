#include "tests/conformance/backends_ucx.h"

namespace asyncmesh::conformance {

std::vector<Backend> backends() {
  return ucx_backends("tag_shm", &transport::make_ucx_tag, {.tls = "shm"});
}

}  // namespace asyncmesh::conformance
