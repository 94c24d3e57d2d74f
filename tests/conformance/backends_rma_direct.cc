#include "tests/conformance/backends_ucx.h"

namespace asyncmesh::conformance {

std::vector<Backend> backends() {
  return ucx_backends("rma_direct", &transport::make_ucx_rma, {.tls = "shm"});
}

}  // namespace asyncmesh::conformance
