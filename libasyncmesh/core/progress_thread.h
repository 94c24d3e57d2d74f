// The optional thread around Progress. It ends when it is destroyed, and outlives every exception:
// a failure is logged, and progress goes on for the peers that are left.
#pragma once

#include <atomic>
#include <thread>

#include "base/log.h"
#include "base/status.h"
#include "core/progress.h"

namespace asyncmesh::core {

class ProgressThread {
 public:
  ProgressThread(Progress& progress, OperationRing& operations, const Logger& logger)
      : progress_(progress), operations_(operations), logger_(logger) {}
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // `cpu` -1: not pinned. kInvalidArgument: no such cpu; kSystem: no thread.
  Status start(int cpu);
  void abandon();  // in a forked child: the thread does not exist there

 private:
  void loop() noexcept;
  Status pin(int cpu);

  Progress& progress_;
  OperationRing& operations_;
  const Logger& logger_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace asyncmesh::core
