// Keeps a reader's arena alive while its remote key is being unpacked.
//
// UCX 1.13 mishandles a key whose memory is gone, because the reader closed the lane meanwhile: it
// releases what an earlier key had left in the same pool object and so detaches whatever shared
// memory lies at that address by now, in any part of the process. The writer therefore attaches the
// segment itself first, which fails cleanly, and unpacks the key only while it holds it.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace asyncmesh::transport {

// The System V id of the segment that is mapped at `address` in this process, or -1 if it is
// another kind of memory.
int32_t sysv_segment_at(const void* address);

class SegmentGuard {
 public:
  SegmentGuard() = default;
  ~SegmentGuard();
  SegmentGuard(const SegmentGuard&) = delete;
  SegmentGuard& operator=(const SegmentGuard&) = delete;

  // kLinkError: the segment is gone. An id of -1 needs no guard.
  Status hold(int32_t segment);

 private:
  const void* attached_ = nullptr;
};

}  // namespace asyncmesh::transport
