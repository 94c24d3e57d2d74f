// The program's own cuda(): the table's sources compiled for the executor, instead of the
// library's.
#include <cstdio>
#include <new>

#include "tests/kernels/backend.h"
#include "tests/kernels/simt/executor.h"

namespace asyncmesh::kernels::backend {

constexpr std::align_val_t kAlignment{256};

void* allocate(size_t bytes) { return operator new(bytes, kAlignment); }
void release(void* memory) { operator delete(memory, kAlignment); }
std::string finish() { return simt::take_failure(); }

}  // namespace asyncmesh::kernels::backend

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  puts("CUDA kernels: run by the SIMT executor on the CPU; no GPU takes part in this program");
  return RUN_ALL_TESTS();
}
