// Each entry of cuda() captured into a graph, whose launches then do what the CPU does: for
// contents that the capture did not see, too. On a GPU only.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda_calls.h"

namespace asyncmesh::kernels {
namespace {

using backend::Call;
using backend::Contents;
using backend::every_call;
using backend::kAllContents;

class Graph {
 public:
  Graph() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaStreamDestroy(stream_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Nothing that a capture forbids may happen meanwhile, in any thread.
  void capture(const Call& call) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    call.run(*cuda(), {nullptr, stream_});
    check(cudaStreamEndCapture(stream_, &graph));
    if (graph == nullptr) return;
    check(cudaGraphInstantiate(&executable_, graph, 0));
    check(cudaGraphDestroy(graph));
  }
  void launch() {
    if (executable_ == nullptr) return;
    check(cudaGraphLaunch(executable_, stream_));
    check(cudaStreamSynchronize(stream_));
  }

 private:
  static void check(cudaError_t error) {
    EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  }

  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

TEST(CudaGraph, OfEveryEntryLaunchedOnAnyContents) {
  auto calls = every_call(), expected = every_call();
  for (size_t i = 0; i < calls.size(); ++i) {
    Graph graph;
    graph.capture(calls[i]);
    for (const Contents contents : kAllContents) {
      calls[i].fill(contents);
      expected[i].fill(contents);
      graph.launch();
      expected[i].run(cpu(), {});
      EXPECT_TRUE(calls[i].agrees(expected[i])) << static_cast<int>(contents);
    }
    ASSERT_EQ(backend::finish(), "") << calls[i].name();
  }
}

}  // namespace
}  // namespace asyncmesh::kernels
