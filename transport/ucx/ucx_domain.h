// What the links of one transport share: the UCP context, registered staging memory, identity, the
// event descriptor over all workers, and the connections of closed links until UCX is done with
// them.
//
// Threads: the progress owner only. Teardown: links and lanes go first. The destructor waits for
// connections that are still closing, up to kDrainTime; those that are not fit to be closed even
// then are left to the process for good, and with them the context: a leak, rather than a hang or
// an abort.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/ucx_connection.h"
#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_handles.h"
#include "transport/ucx/ucx_offer.h"

namespace asyncmesh::transport {

class UcxInbound;
class UcxLink;
class UcxOutbound;

class UcxDomain {
 public:
  static Result<std::unique_ptr<UcxDomain>> create(const UcxContextRequest& request,
                                                   UcxEngine engine, const Clock& clock);
  ~UcxDomain();
  UcxDomain(const UcxDomain&) = delete;
  UcxDomain& operator=(const UcxDomain&) = delete;

  ucp_context_h context() const { return context_.get(); }
  const UcxAddress& identity() const { return identity_; }
  std::span<const std::byte> address() const { return address_; }
  size_t request_bytes() const { return request_bytes_; }  // of UCP's part of a caller's request

  Result<uint32_t> register_staging(std::span<std::byte> memory);
  ucp_mem_h staging(uint32_t id) const { return staging_[id].handle(); }

  Result<std::unique_ptr<UcxConnection>> open_connection(UcxLink* link);
  void close_connection(std::unique_ptr<UcxConnection> connection);

  void add_link(UcxLink* link) { links_.push_back(link); }
  void remove_link(UcxLink* link) { std::erase(links_, link); }
  const std::vector<UcxLink*>& links() const { return links_; }

  // Inbound lanes whose memory must be looked at.
  void add_polled(UcxInbound* lane) { polled_lanes_.push_back(lane); }
  void remove_polled(UcxInbound* lane) { std::erase(polled_lanes_, lane); }
  const std::vector<UcxInbound*>& polled_lanes() const { return polled_lanes_; }
  // Outbound lanes whose credit must be looked for.
  void add_polled(UcxOutbound* lane) { credited_lanes_.push_back(lane); }
  void remove_polled(UcxOutbound* lane) { std::erase(credited_lanes_, lane); }
  const std::vector<UcxOutbound*>& credited_lanes() const { return credited_lanes_; }
  // Some link has something to do once its lanes were polled.
  void note_unsettled() { unsettled_ = true; }
  bool take_unsettled() { return std::exchange(unsettled_, false); }

  // Requests that nothing but progress of UCX completes, and whose owner is in a hurry.
  void note_pending(int32_t change) { pending_ += change; }
  bool has_pending() const { return pending_ != 0; }
  const Clock& clock() const { return clock_; }

  int event_fd() const { return event_fd_; }
  // What the owner has to do beside progress of its links; returns the number of events.
  uint32_t housekeep();
  bool arm_closing();                        // false: there is work already
  void note_failure() { failures_ = true; }  // some link has a failure to deliver

 private:
  UcxDomain(UcxEngine engine, const Clock& clock) : clock_(clock), engine_(engine) {}
  Status open(const UcxContextRequest& request);
  void deliver_failures();
  void progress_closing();
  void watch(int fd, int operation);
  void abandon();

  const Clock& clock_;
  UcxEngine engine_;
  UcxAddress identity_;
  Bytes address_;
  size_t request_bytes_ = 0;
  int event_fd_ = -1;
  bool failures_ = false;
  bool unsettled_ = false;
  uint32_t rounds_ = 0;
  int32_t pending_ = 0;
  std::vector<UcxLink*> links_;
  std::vector<UcxInbound*> polled_lanes_;
  std::vector<UcxOutbound*> credited_lanes_;
  UniqueUcpContext context_;  // creation order: context, memory, workers
  std::vector<UcpMemory> staging_;
  std::vector<std::unique_ptr<UcxConnection>> closing_;
};

}  // namespace asyncmesh::transport
