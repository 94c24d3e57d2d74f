#include "core/doorbell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace asyncmesh::core {

Doorbell::~Doorbell() {
  if (fd_ >= 0) close(fd_);
}

Status Doorbell::open() {
  fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd_ < 0) return Status(Code::kSystem, std::string("eventfd: ") + std::strerror(errno));
  return {};
}

void Doorbell::ring() noexcept {
  // Pairs with the read-modify-write in `prepare_sleep`.
  const uint64_t before = state_.fetch_add(kRing, std::memory_order_acq_rel);
  if ((before & kSleeping) == 0) return;
  // Of several ringers the one that clears the bit writes.
  if ((state_.fetch_and(~kSleeping, std::memory_order_acq_rel) & kSleeping) == 0) return;
  // A failure is harmless: the counter of an event fd that cannot take more is readable already.
  [[maybe_unused]] const int written = eventfd_write(fd_, 1);
}

void Doorbell::prepare_sleep() noexcept {
  // Pairs with the read-modify-write in `ring`: whatever was pushed before a ring that came first
  // is visible from here on.
  state_.fetch_or(kSleeping, std::memory_order_acq_rel);
}

void Doorbell::cancel_sleep() noexcept { wake(false); }

void Doorbell::wake(bool readable) noexcept {
  const bool rung = (state_.fetch_and(~kSleeping, std::memory_order_acq_rel) & kSleeping) == 0;
  if (!rung && !readable) return;
  // The ringer that cleared the bit may not have written yet; its write then ends the next sleep
  // early, which reads it.
  eventfd_t rings = 0;
  [[maybe_unused]] const int got = eventfd_read(fd_, &rings);
}

}  // namespace asyncmesh::core
