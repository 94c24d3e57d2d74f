#include "transport/ucx/rma/segment_guard.h"

#include <fmt/format.h>
#include <sys/shm.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

namespace asyncmesh::transport {

// The kernel reports a segment's id as the inode of its mapping, and keeps doing so for the tools
// that rely on it.
int32_t sysv_segment_at(const void* address) {
  struct CloseFile {
    void operator()(FILE* file) const { fclose(file); }
  };
  const std::unique_ptr<FILE, CloseFile> maps(fopen("/proc/self/maps", "re"));
  if (maps == nullptr) return -1;
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  char line[512];
  while (fgets(line, sizeof(line), maps.get()) != nullptr) {
    uintptr_t start = 0;
    int32_t inode = -1;
    int name_at = 0;
    const int fields =
        sscanf(line, "%" SCNxPTR "-%*x %*s %*x %*s %" SCNd32 " %n", &start, &inode, &name_at);
    if (fields != 2 || start != wanted) continue;
    return std::strncmp(line + name_at, "/SYSV", 5) == 0 ? inode : -1;
  }
  return -1;
}

SegmentGuard::~SegmentGuard() {
  if (attached_ != nullptr) shmdt(attached_);
}

Status SegmentGuard::hold(int32_t segment) {
  if (segment < 0) return {};
  const void* attached = shmat(segment, nullptr, SHM_RDONLY);
  if (attached == reinterpret_cast<void*>(-1)) {
    return {Code::kLinkError, fmt::format("the reader's slots are gone: {}", std::strerror(errno))};
  }
  attached_ = attached;
  return {};
}

}  // namespace asyncmesh::transport
