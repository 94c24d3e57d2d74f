// A file descriptor that a forked child does not keep.
//
// A child made by fork() without exec holds copies of its parent's sockets, and as long as it
// lives, peers see no EOF when the parent dies. So every descriptor of the mesh is listed, and a
// handler that runs in the child closes all of them, and empties the owners there: `get` returns
// -1, system calls on it fail harmlessly, and destruction closes nothing. Descriptors are also
// close-on-exec. A child made by vfork or posix_spawn runs no handler; it execs at once.
//
// Threads: an object belongs to one thread at a time; opening, closing and forking may happen on
// different threads at once. The list is the only global state of the mesh.
#pragma once

#include <memory>
#include <utility>

namespace asyncmesh::mesh {

class ForkSafeFd {
 public:
  ForkSafeFd() = default;
  ForkSafeFd(ForkSafeFd&&) noexcept = default;
  ForkSafeFd& operator=(ForkSafeFd&& other) noexcept {
    if (this != &other) {
      reset();
      entry_ = std::move(other.entry_);
    }
    return *this;
  }
  ~ForkSafeFd() { reset(); }

  // Runs `make_descriptor` (which returns a descriptor, or -1 and sets errno, and must not block)
  // so that no fork can come between the opening and the listing. Empty on failure, errno kept.
  template <typename MakeDescriptor>
  static ForkSafeFd open(MakeDescriptor&& make_descriptor) {
    ForkSafeFd result;
    auto entry = std::make_unique<Entry>();
    lock();
    entry->fd = make_descriptor();
    if (entry->fd >= 0) {
      enlist(*entry);
      result.entry_ = std::move(entry);
    }
    unlock();
    return result;
  }

  int get() const noexcept { return entry_ ? entry_->fd : -1; }
  explicit operator bool() const noexcept { return get() >= 0; }
  void reset() noexcept;

 private:
  struct Entry {
    int fd = -1;
    Entry* next = nullptr;
    Entry* previous = nullptr;
  };

  static void lock() noexcept;
  static void unlock() noexcept;
  static void enlist(Entry& entry) noexcept;
  static void delist(Entry& entry) noexcept;
  static void close_all_in_child() noexcept;

  inline static Entry* first_ = nullptr;  // of all open descriptors; under the lock

  std::unique_ptr<Entry> entry_;
};

}  // namespace asyncmesh::mesh
