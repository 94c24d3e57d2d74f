// A UCP context and its worker: address, progress, wake-up, staging registrations, active-message
// dispatch, and the objects that UCX may still refer to after their owners are gone.
//
// Threads: the progress owner only (the worker is SERIALIZED: creation and progress may be on
// different threads, one at a time). Teardown: links and lanes go first. The destructor then
// progresses until nothing is outstanding or kDrainTime has passed; what is outstanding even then
// is freed after the worker, when UCX can no longer write to it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_control.h"
#include "transport/ucx/ucx_handles.h"

namespace asyncmesh::transport {

enum class UcxEngine : uint16_t { kTag = 1, kRma = 2 };

class UcxLink;

class UcxWorker {
 public:
  static Result<std::unique_ptr<UcxWorker>> create(const UcxContextRequest& request,
                                                   UcxEngine engine, const Clock& clock);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h handle() const { return worker_.get(); }
  ucp_context_h context() const { return context_.get(); }
  uint64_t node() const { return node_; }
  size_t request_bytes() const {
    return request_bytes_;
  }  // of UCP's part of a caller-provided request
  std::span<const std::byte> address() const { return address_; }

  Result<uint32_t> register_staging(std::span<std::byte> memory);
  ucp_mem_h staging(uint32_t id) const { return staging_[id].handle(); }

  uint32_t progress();  // UCX, then failures of links; returns the number of events
  int event_fd() const { return event_fd_; }
  bool arm();

  void add_link(UcxLink* link);
  void remove_link(UcxLink* link);
  const std::vector<UcxLink*>& links() const { return links_; }
  void note_failure() { failures_ = true; }   // some link has a failure to deliver
  void note_deferred() { deferred_ = true; }  // some lane has a frame that UCX will not announce
  bool take_deferred() { return std::exchange(deferred_, false); }

  void retire(std::unique_ptr<Lingering> object);
  // A forced close. What UCX still has to do for it happens in progress().
  void close_endpoint(ucp_ep_h endpoint);
  uint64_t stray_messages() const { return stray_messages_; }

 private:
  UcxWorker(UcxEngine engine, const Clock& clock) : engine_(engine), clock_(clock) {}
  Status open(const UcxContextRequest& request);
  Status pack_address();
  void deliver_failures();
  void sweep();
  void drain();
  static ucs_status_t on_message(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* param);

  UcxEngine engine_;
  const Clock& clock_;
  uint64_t node_ = 0;
  size_t request_bytes_ = 0;
  int event_fd_ = -1;
  bool failures_ = false;
  bool deferred_ = false;
  uint64_t stray_messages_ = 0;
  Bytes address_;
  std::vector<UcxLink*> links_;
  std::vector<std::unique_ptr<Lingering>> lingering_;
  std::vector<void*> closing_;  // requests of closes that UCX has not finished
  UniqueUcpContext context_;    // creation order: context, memory, worker
  std::vector<UcpMemory> staging_;
  UniqueUcpWorker worker_;
};

// An address as exchanged between peers: a prefix of ours, then UCX's worker address.
struct UcxAddress {
  uint64_t node = 0;
  const ucp_address_t* worker = nullptr;  // into the bytes that were parsed
};
// kMismatch: another engine, or a UCX with another minor version (their wire formats are not
// compatible).
Result<UcxAddress> parse_ucx_address(std::span<const std::byte> bytes, UcxEngine engine);

}  // namespace asyncmesh::transport
