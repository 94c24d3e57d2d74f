// The UCX side of one link: a worker, and one endpoint to the peer's worker of the same link.
//
// A worker per link and epoch, not one per process, for three reasons. UCX 1.13 pairs the endpoints
// of two workers by counting them, and gets it wrong, ending the process with an assertion, when
// some are closed and opened again at different moments. A peer that is killed while it writes to
// a shared-memory queue leaves that queue stuck: it then is the queue of one dead link. And what an
// old epoch still has on its way dies with its worker.
//
// Connecting: the writer of a lane finds the reader's worker address in the lane's offer, connects
// and says hello with its own; the reader connects back. Whoever connects first, each side has one
// endpoint.
//
// Closing: UCX asserts, too, if an endpoint over TCP is closed by force while one of its own
// connection messages waits to be sent. `begin_close` therefore asks for a flush; once it is done
// nothing waits, and the endpoint is closed. While a peer is stopped, its buffers full, the flush
// takes until it runs again or dies; the connection waits in the domain meanwhile and costs nothing
// else. Over shared memory connection messages never wait, while a flush would, for good, for a
// peer that died before it answered the first one: there the endpoint is closed at once. Once it is
// closed the worker makes no progress any more, or it would answer the peer's late connection
// requests with another endpoint, and the peer would end with an assertion.
//
// Threads: the progress owner only. The worker is SERIALIZED: creation and progress may be on
// different threads, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/ucx_control.h"
#include "transport/ucx/ucx_handles.h"

namespace asyncmesh::transport {

class UcxLink;

class UcxConnection {
 public:
  static Result<std::unique_ptr<UcxConnection>> create(ucp_context_h context, UcxLink* link);
  ~UcxConnection();  // is_gone() holds
  UcxConnection(const UcxConnection&) = delete;
  UcxConnection& operator=(const UcxConnection&) = delete;

  std::span<const std::byte> address() const { return address_; }  // UCX's, of the worker
  ucp_worker_h worker() const { return worker_.get(); }
  ucp_ep_h endpoint() const { return endpoint_; }  // null until connected
  int event_fd() const { return event_fd_; }

  ucs_status_t connect(std::span<const std::byte> address);  // makes some progress first
  uint32_t progress() {
    const uint32_t events = ucp_worker_progress(worker_.get());
    quiet_ = events == 0;
    return events;
  }
  std::string transports() const;  // of the endpoint: "tcp/eth0", "sysv + posix"
  bool arm();  // false: there is work already, or there was at the last progress

  // Holds on to `object` until UCX is done with it, or the worker is gone.
  void keep(std::shared_ptr<Lingering> object);

  void begin_close();     // no call comes to the link any more
  void progress_close();  // a round of progress, and the next step where it is possible
  bool is_gone() const { return endpoint_ == nullptr && close_request_ == nullptr; }  // closing

 private:
  static constexpr int kRoundsBeforeConnect = 64;

  explicit UcxConnection(UcxLink* link) : link_(link) {}
  Status open(ucp_context_h context);
  void close_endpoint();
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);
  static void on_flushed(void* request, ucs_status_t status, void* self);
  static ucs_status_t on_message(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* param);

  UcxLink* link_;  // null once closing
  Bytes address_;
  int event_fd_ = -1;
  ucp_ep_h endpoint_ = nullptr;  // owned: close_endpoint
  bool quiet_ = false;           // the last progress found nothing
  bool failed_ = false;
  bool flushing_ = false;
  void* close_request_ = nullptr;
  std::vector<std::shared_ptr<Lingering>> kept_;  // freed after the worker
  UniqueUcpWorker worker_;
};

}  // namespace asyncmesh::transport
