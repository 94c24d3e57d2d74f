// The library's cuda(), on the first GPU of this machine.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "tests/kernels/backend.h"

namespace asyncmesh::kernels::backend {

void* allocate(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMallocManaged(&memory, bytes != 0 ? bytes : 1);
  if (error != cudaSuccess) {
    fprintf(stderr, "cudaMallocManaged: %s\n", cudaGetErrorString(error));
    abort();
  }
  return memory;
}

void release(void* memory) { cudaFree(memory); }

std::string finish() {
  const cudaError_t launch = cudaGetLastError();
  const cudaError_t error = launch != cudaSuccess ? launch : cudaDeviceSynchronize();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

}  // namespace asyncmesh::kernels::backend

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    printf("CUDA kernels: no GPU here (%s); run on the SIMT executor only, by kernels_simt_test\n",
           error != cudaSuccess ? cudaGetErrorString(error) : "no device");
    return 0;
  }
  cudaDeviceProp properties = {};
  cudaGetDeviceProperties(&properties, 0);
  printf("CUDA kernels: run on %s (sm_%d%d)\n", properties.name, properties.major,
         properties.minor);
  return RUN_ALL_TESTS();
}
