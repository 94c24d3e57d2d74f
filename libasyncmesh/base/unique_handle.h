// Sole ownership of a foreign handle, destroyed by the function that the type names:
//
//      using WorkerHandle = UniqueHandle<ucp_worker_h, &ucp_worker_destroy>;
//      using FileHandle = UniqueHandle<int, &close_file, -1>;
//
// Members are declared in the order of creation: reverse destruction is then right.
#pragma once

#include <utility>

namespace asyncmesh {

template <typename T, auto kDestroy, T kNull = T{}>
class [[nodiscard]] UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(T handle) noexcept : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(other.release()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  T get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != kNull; }

  // Gives the handle up without destroying it.
  [[nodiscard]] T release() noexcept { return std::exchange(handle_, kNull); }
  void reset(T handle = kNull) noexcept {
    const T old = std::exchange(handle_, handle);
    if (old != kNull) kDestroy(old);
  }

 private:
  T handle_ = kNull;
};

}  // namespace asyncmesh
