#include "tests/conformance/backends_ucx.h"

namespace asyncmesh::conformance {

std::vector<Backend> backends() {
  return ucx_backends("rma_puts", &transport::make_ucx_rma, {.tls = "shm", .direct_stores = false});
}

}  // namespace asyncmesh::conformance
