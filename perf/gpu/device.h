// Device memory, and how long work takes on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace asyncmesh::kernels::bench {

// Ends the program with what went wrong.
void check(cudaError_t error, const char* what);

template <typename T>
class Buffer {
 public:
  explicit Buffer(uint64_t count) : count_(count) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes() != 0 ? bytes() : 1), "cudaMalloc");
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  uint64_t count_;
};

// Floats of either sign around 1e-2, the same in every run, others with another seed.
void fill(Buffer<float>& buffer, uint64_t seed);
uint64_t free_memory();

class Timer {
 public:
  Timer();
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  cudaStream_t stream() const { return stream_; }
  // Seconds per call of `work`, which enqueues on stream(): the median of several runs, each of
  // calls enough for `least` seconds.
  double seconds(const std::function<void()>& work, double least = 0.02);

 private:
  double run(const std::function<void()>& work, int calls);

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace asyncmesh::kernels::bench
