// How an application thread wakes a progress owner that sleeps, and costs it nothing while it runs.
//
//      owner                                       application thread
//      bell.prepare_sleep()                        push an operation
//      if (something is queued) bell.cancel_sleep()   bell.ring()
//      else poll({bell.fd(), ...}), bell.wake(readable)
//
// `prepare_sleep` and `ring` are read-modify-writes of one word, so either the owner's second look
// finds the operation, or the ringer sees that the owner sleeps. `ring` is one atomic add while the
// owner is awake; the first ring after it went to sleep writes the event fd, later ones do not.
// Threads: ring from any; the rest belongs to the owner.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/status.h"

namespace asyncmesh::core {

class Doorbell {
 public:
  Doorbell() = default;
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  Status open();  // once, before use; kSystem: no file descriptor

  void ring() noexcept;

  void prepare_sleep() noexcept;
  void cancel_sleep() noexcept;
  void wake(bool readable) noexcept;  // after the sleep; whether fd() was readable
  int fd() const noexcept { return fd_; }

 private:
  static constexpr uint64_t kSleeping = 1;
  static constexpr uint64_t kRing = 2;

  std::atomic<uint64_t> state_{0};  // rings x kRing + kSleeping
  int fd_ = -1;
};

}  // namespace asyncmesh::core
