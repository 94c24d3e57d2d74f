#include "tests/conformance/backends_ucx.h"

namespace asyncmesh::conformance {

std::vector<Backend> backends() {
  return ucx_backends("tag_tcp", &transport::make_ucx_tag, {.tls = "tcp"});
}

}  // namespace asyncmesh::conformance
