#include "kernels/kernels.h"

namespace asyncmesh::kernels {

const Table* cuda() { return nullptr; }

}  // namespace asyncmesh::kernels
