// The program's own cuda(): the table's sources compiled for the executor, instead of the
// library's.
#include <cstdio>

#include "tests/kernels/backend.h"
#include "tests/kernels/simt/device_memory.h"
#include "tests/kernels/simt/executor.h"

namespace asyncmesh::kernels::backend {

void* allocate(size_t bytes) { return simt::allocate(bytes); }
void release(void* memory) { simt::release(memory); }
std::string finish() { return simt::take_failure(); }

}  // namespace asyncmesh::kernels::backend

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  puts("CUDA kernels: run by the SIMT executor on the CPU; no GPU takes part in this program");
  return RUN_ALL_TESTS();
}
