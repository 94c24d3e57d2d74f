#include "core/progress_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <cstring>
#include <exception>
#include <system_error>

namespace asyncmesh::core {

ProgressThread::~ProgressThread() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  operations_.bell().ring();
  thread_.join();
}

Status ProgressThread::start(int cpu) {
  // The thread inherits this mask: signals stay with the application's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error& error) {
    status = Status(Code::kSystem, fmt::format("the progress thread: {}", error.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!status.ok()) return status;
  pthread_setname_np(thread_.native_handle(), "asyncmesh");
  return cpu < 0 ? Status() : pin(cpu);
}

Status ProgressThread::pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= CPU_SETSIZE)
    return Status(Code::kInvalidArgument, fmt::format("progress_cpu {} is out of range", cpu));
  CPU_SET(static_cast<size_t>(cpu), &set);
  const int error = pthread_setaffinity_np(thread_.native_handle(), sizeof set, &set);
  if (error != 0)
    return Status(Code::kInvalidArgument,
                  fmt::format("progress_cpu {}: {}", cpu, std::strerror(error)));
  return {};
}

void ProgressThread::abandon() {
  if (thread_.joinable()) thread_.detach();
}

void ProgressThread::loop() noexcept {
  while (!stop_.load(std::memory_order_acquire)) {
    try {
      progress_.step_st(kNever);
    } catch (const std::exception& error) {
      logger_.write(LogLevel::kError, error.what());
    } catch (...) {
      logger_.write(LogLevel::kError, "an unknown exception in progress");
    }
  }
}

}  // namespace asyncmesh::core
