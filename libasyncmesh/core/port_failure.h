// Why the lanes of a port died: written by the progress owner, read by the port's caller when a
// call finds that nothing can move any more.
#pragma once

#include <mutex>
#include <vector>

#include "core/link.h"

namespace asyncmesh::core {

class PortFailure final : public LaneObserver {
 public:
  void on_lane_failed_st(Rank peer, const Status& why) override {
    const std::scoped_lock lock(mutex_);
    failures_.push_back({peer, why});
  }
  // The first reason, or the plain text of `code` if no lane failed.
  Status explain(Code code) const {
    const std::scoped_lock lock(mutex_);
    return failures_.empty() ? Status(code) : failures_.front().why;
  }
  // The first reason with this code.
  bool find(Code code, Status* why_out) const {
    const std::scoped_lock lock(mutex_);
    for (const Failure& failure : failures_) {
      if (failure.why.code() != code) continue;
      *why_out = failure.why;
      return true;
    }
    return false;
  }

 private:
  struct Failure {
    Rank peer = 0;
    Status why;
  };
  mutable std::mutex mutex_;
  std::vector<Failure> failures_;
};

}  // namespace asyncmesh::core
