// A function that the progress owner runs while its caller waits; exceptions travel back.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>

#include "core/operation.h"

namespace asyncmesh::core {

template <typename Function>
class OwnerCall final : public Command {
 public:
  explicit OwnerCall(Function& function) : function_(function) {}

  void run_st() override {
    try {
      function_();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  void finish_st() override {
    // The notification is inside the lock: the caller may destroy this as soon as it gets the lock.
    const std::scoped_lock lock(mutex_);
    done_ = true;
    finished_.notify_one();
  }
  void wait() {
    {
      std::unique_lock lock(mutex_);
      finished_.wait(lock, [this] { return done_; });
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Function& function_;
  std::exception_ptr error_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
};

}  // namespace asyncmesh::core
