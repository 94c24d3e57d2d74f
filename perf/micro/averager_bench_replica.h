// One of two replicas of a model in one process, through the C API.
#pragma once

#include <asyncmesh/asyncmesh.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernel_bench_memory.h"

namespace asyncmesh::kernels::bench {

// A rendezvous on a port of the loopback interface that was free a moment ago.
std::string free_url();

// Creation waits for the other one, which is created on another thread meanwhile. Throws
// std::runtime_error with the library's text.
class Replica {
 public:
  // A model of `parameters` in the shape of a small transformer. `threads`: that work on a call.
  Replica(uint32_t rank, const std::string& url, uint64_t parameters, asyncmesh_wire_t wire,
          uint32_t threads);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  asyncmesh_averager_result_t call();

 private:
  void create(uint32_t rank, const std::string& url, asyncmesh_wire_t wire, uint32_t threads);
  void destroy();

  Memory<float> weights_;
  std::vector<asyncmesh_tensor_t> tensors_;
  asyncmesh_context_t* context_ = nullptr;
  asyncmesh_mesh_t* mesh_ = nullptr;
  asyncmesh_region_t* region_ = nullptr;
  asyncmesh_averager_t* averager_ = nullptr;
};

}  // namespace asyncmesh::kernels::bench
