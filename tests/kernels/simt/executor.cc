#include "tests/kernels/simt/executor.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/kernels/simt/block.h"

simt::Index threadIdx, blockIdx;
simt::Dim3 blockDim, gridDim;

namespace simt {
namespace {

constexpr uint32_t kMostThreads = 1024, kMostDepth = 64;
constexpr uint32_t kMostGridX = 0x7FFFFFFF, kMostGridYz = 65535;
constexpr size_t kMostShared = 163 << 10;  // sm_80, the smallest of those built for

struct Executor {
  Block block;
  Recording* recording = nullptr;
  bool running = false;
  uint64_t launches = 0;
  std::byte* shared = nullptr;
  std::string failure;
};

Executor& executor() {
  static Executor instance;
  return instance;
}

std::string text(const char* what, const Index& index) {
  return std::string(what) + " (" + std::to_string(index.x) + ", " + std::to_string(index.y) +
         ", " + std::to_string(index.z) + ")";
}

std::string refused(const Dim3& grid, const Dim3& block, size_t shared_bytes) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > kMostDepth) {
    return text("launch refused: block", {block.x, block.y, block.z});
  }
  if (uint64_t{grid.x} * grid.y * grid.z == 0 || grid.x > kMostGridX || grid.y > kMostGridYz ||
      grid.z > kMostGridYz) {
    return text("launch refused: grid", {grid.x, grid.y, grid.z});
  }
  if (shared_bytes > kMostShared) {
    return "launch refused: " + std::to_string(shared_bytes) + " bytes of shared memory";
  }
  return {};
}

// What a kernel reads before it has written it: NaN for every floating type.
void forget(std::byte* shared, size_t bytes) {
  if (bytes != 0) memset(shared, 0xFF, bytes);
}

std::string run_grid(Executor& self, size_t shared_bytes, const std::function<void()>& thread) {
  const uint64_t blocks = uint64_t{gridDim.x} * gridDim.y * gridDim.z;
  for (uint64_t i = 0; i < blocks; ++i) {
    blockIdx = {static_cast<unsigned>(i % gridDim.x),
                static_cast<unsigned>(i / gridDim.x % gridDim.y),
                static_cast<unsigned>(i / gridDim.x / gridDim.y)};
    forget(self.shared, shared_bytes);
    const std::string failure = self.block.run(thread, (self.launches + i) % 2 != 0);
    if (!failure.empty()) return text("block", blockIdx) + ": " + failure;
  }
  return {};
}

Executor& inside_a_kernel() {
  Executor& self = executor();
  if (!self.running) {
    fputs("simt: a device function was called outside a kernel\n", stderr);
    abort();
  }
  return self;
}

}  // namespace

void run(const Dim3& grid, const Dim3& block, size_t shared_bytes,
         const std::function<void()>& thread) {
  Executor& self = executor();
  std::string failure = refused(grid, block, shared_bytes);
  if (failure.empty()) {
    const auto shared = std::make_unique<std::byte[]>(shared_bytes);
    gridDim = grid;
    blockDim = block;
    self.shared = shared.get();
    self.running = true;
    failure = run_grid(self, shared_bytes, thread);
    self.running = false;
    self.shared = nullptr;
  }
  ++self.launches;
  if (self.failure.empty()) self.failure = std::move(failure);
}

void launch(Launch launch, const std::function<void()>& thread) {
  Recording* const recording = executor().recording;
  if (recording == nullptr || recording->run_) {
    run(launch.grid, launch.block, launch.shared_bytes, thread);
  }
  if (recording != nullptr) recording->launches_.push_back(std::move(launch));
}

Recording::Recording(Kernels kernels) : run_(kernels == Kernels::kRun) {
  executor().recording = this;
}
Recording::~Recording() { executor().recording = nullptr; }

std::string take_failure() { return std::exchange(executor().failure, {}); }

uint64_t meet(const Meeting& meeting) { return inside_a_kernel().block.meet(meeting); }
uint32_t current_lane() { return inside_a_kernel().block.lane(); }
void misuse(const std::string& what) { inside_a_kernel().block.misuse(what); }
void* dynamic_shared_memory() { return inside_a_kernel().shared; }

}  // namespace simt
