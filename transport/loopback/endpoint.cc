#include "transport/loopback/endpoint.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace asyncmesh::transport {

Endpoint::Endpoint(uint64_t id) : id_(id), event_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Endpoint::~Endpoint() {
  if (event_fd_ >= 0) ::close(event_fd_);
}

void Endpoint::arm() noexcept {
  arming_ = true;
  armed_.store(true, std::memory_order_seq_cst);
}

void Endpoint::disarm() noexcept {
  if (!arming_) return;
  arming_ = false;
  armed_.store(false, std::memory_order_seq_cst);
  // Always drained, even if nobody seems to have written: a peer that took the flag may write only
  // now, and a descriptor left readable would end every later sleep at once.
  if (event_fd_ < 0) return;
  eventfd_t count = 0;
  (void)::eventfd_read(event_fd_, &count);
}

void Endpoint::close() noexcept { closed_.store(true, std::memory_order_release); }

void Endpoint::wake() noexcept {
  if (!armed_.exchange(false, std::memory_order_seq_cst) || event_fd_ < 0) return;
  // Cannot fail for lack of room: the counter is drained after every wake-up.
  (void)::eventfd_write(event_fd_, 1);
}

}  // namespace asyncmesh::transport
