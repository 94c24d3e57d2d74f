// A bare UCP endpoint to the other process, configured as the engines configure theirs: the same
// transports, one eager fragment or rendezvous, errors reported per peer.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <string>
#include <vector>

#include "perf/micro/lane_bench_pattern.h"

namespace asyncmesh::bench {

class UcpPair {
 public:
  UcpPair(const ProcessPair& pair, const Medium& medium, uint64_t features);
  ~UcpPair();
  UcpPair(const UcpPair&) = delete;
  UcpPair& operator=(const UcpPair&) = delete;

  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  ucp_ep_h endpoint() const { return endpoint_; }
  void progress() const { ucp_worker_progress(worker_); }

 private:
  const ProcessPair& pair_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

void check(ucs_status_t status, const char* what);

}  // namespace asyncmesh::bench
