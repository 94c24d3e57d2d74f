// Owning handles for UCX objects. No other file calls a ucp_*_destroy, release or cleanup function.
//
// Members that hold them are declared in creation order (context, worker, memory or rkey), so that
// reverse destruction is right.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace asyncmesh::transport {

template <auto destroy>
struct UcxDestroy {
  template <typename T>
  void operator()(T* handle) const noexcept {
    destroy(handle);
  }
};

template <typename T, auto destroy>
using UniqueHandle = std::unique_ptr<T, UcxDestroy<destroy>>;

using UniqueUcpConfig = UniqueHandle<ucp_config_t, &ucp_config_release>;
using UniqueUcpContext = UniqueHandle<ucp_context, &ucp_cleanup>;
using UniqueUcpWorker = UniqueHandle<ucp_worker, &ucp_worker_destroy>;
using UniqueUcpRkey = UniqueHandle<ucp_rkey, &ucp_rkey_destroy>;
using UniqueUcpBuffer = UniqueHandle<void, &ucp_rkey_buffer_release>;  // of ucp_rkey_pack

// Memory mapped into a context: foreign (registered) or allocated by UCX. Unmapped on destruction.
class UcpMemory {
 public:
  UcpMemory() = default;
  UcpMemory(ucp_context_h context, ucp_mem_h handle, std::span<std::byte> bytes)
      : context_(context), handle_(handle), bytes_(bytes) {}
  UcpMemory(UcpMemory&& other) noexcept { *this = std::move(other); }
  UcpMemory& operator=(UcpMemory&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~UcpMemory() {
    if (handle_ != nullptr) ucp_mem_unmap(context_, handle_);
  }

  ucp_mem_h handle() const { return handle_; }
  std::span<std::byte> bytes() const { return bytes_; }
  void set_bytes(std::span<std::byte> bytes) { bytes_ = bytes; }

 private:
  ucp_context_h context_ = nullptr;
  ucp_mem_h handle_ = nullptr;
  std::span<std::byte> bytes_;
};

}  // namespace asyncmesh::transport
