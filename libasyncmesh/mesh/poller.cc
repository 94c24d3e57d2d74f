#include "mesh/poller.h"

#include <algorithm>
#include <cerrno>

#include "mesh/socket.h"

namespace asyncmesh::mesh {

namespace {

epoll_event event_of(uint64_t token, bool read, bool write) {
  epoll_event event{};
  event.events = (read ? uint32_t{EPOLLIN} : 0U) | (write ? uint32_t{EPOLLOUT} : 0U);
  event.data.u64 = token;
  return event;
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::create() {
  std::unique_ptr<Poller> poller(new Poller());
  poller->epoll_ = ForkSafeFd::open([] { return epoll_create1(EPOLL_CLOEXEC); });
  if (!poller->epoll_) return Status(Code::kSystem, "epoll: " + errno_text(errno));
  return poller;
}

bool Poller::watch(int fd, uint64_t token, bool read, bool write) {
  epoll_event event = event_of(token, read, write);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return false;
  ++watched_;
  if (events_.size() < watched_) events_.resize(std::max(watched_, 2 * events_.size()));
  return true;
}

void Poller::change(int fd, uint64_t token, bool read, bool write) {
  epoll_event event = event_of(token, read, write);
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::forget(int fd) {
  epoll_event unused{};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused) == 0) --watched_;
}

std::span<const epoll_event> Poller::wait(Nanoseconds timeout) {
  if (events_.empty()) events_.resize(1);
  const int milliseconds =
      timeout <= 0
          ? 0
          : static_cast<int>(std::min<Nanoseconds>((timeout + 999'999) / 1'000'000, 60'000));
  const int ready =
      epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), milliseconds);
  return std::span<const epoll_event>(events_).first(ready > 0 ? static_cast<size_t>(ready) : 0);
}

}  // namespace asyncmesh::mesh
