#include "mesh/fork_safe_fd.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>

namespace asyncmesh::mesh {

namespace {

// Constant-initialised: usable before and after every static object.
pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;

}  // namespace

void ForkSafeFd::lock() noexcept {
  // The handlers hold the lock across every later fork, so the child finds a whole list.
  static const int registered =
      pthread_atfork([] { lock(); }, [] { unlock(); }, [] { close_all_in_child(); });
  static_cast<void>(registered);
  pthread_mutex_lock(&list_mutex);
}

void ForkSafeFd::unlock() noexcept { pthread_mutex_unlock(&list_mutex); }

void ForkSafeFd::enlist(Entry& entry) noexcept {
  entry.next = first_;
  if (first_ != nullptr) first_->previous = &entry;
  first_ = &entry;
}

void ForkSafeFd::delist(Entry& entry) noexcept {
  if (entry.previous != nullptr) entry.previous->next = entry.next;
  if (entry.next != nullptr) entry.next->previous = entry.previous;
  if (first_ == &entry) first_ = entry.next;
  entry.next = nullptr;
  entry.previous = nullptr;
}

void ForkSafeFd::close_all_in_child() noexcept {
  while (first_ != nullptr) {
    Entry& entry = *first_;
    delist(entry);
    close(entry.fd);
    entry.fd = -1;
  }
  unlock();
}

void ForkSafeFd::reset() noexcept {
  if (!entry_) return;
  const int kept = errno;
  lock();
  if (entry_->fd >= 0) {
    delist(*entry_);
    close(entry_->fd);
  }
  unlock();
  entry_.reset();
  errno = kept;
}

}  // namespace asyncmesh::mesh
