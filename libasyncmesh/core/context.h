// The context: clock, log, operations, progress and its owner. Everything else hangs on it.
//
// Reference counted: what is created in a context holds a shared pointer to it. The progress thread
// holds none; it ends in the destructor, which runs on an application thread.
//
// Threads of its own, all made by `create`: the progress thread, and kernel_threads - 1 workers.
//
// Threads: `create` and the destructor: no concurrent use. do_work and try_step: in manual mode,
// from any thread, one at a time gets the owner's role. `run`: any thread but the owner's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "core/config.h"
#include "core/events.h"
#include "core/fork_guard.h"
#include "core/log_target.h"
#include "core/operation.h"
#include "core/owner_call.h"
#include "core/progress.h"
#include "core/progress_thread.h"
#include "kernels/kernels.h"
#include "kernels/workers.h"

namespace asyncmesh::core {

class MeshSession;

// An open port, as context_poll sees it.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual bool ready() noexcept = 0;  // on the thread that uses the port
  virtual uint64_t key() const noexcept = 0;
};

// Names and values for asyncmesh_counters_read.
struct Counter {
  std::string name;
  uint64_t value = 0;
};
class CounterSource {
 public:
  virtual ~CounterSource() = default;
  virtual void read_counters(std::vector<Counter>& out) const = 0;  // any thread
};

class Context {
 public:
  static Result<std::shared_ptr<Context>> create(const ContextConfig& config);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const ContextConfig& config() const { return config_; }
  const Clock& clock() const { return clock_; }
  const Logger& logger() const { return logger_; }
  LogTarget& log_target() { return log_target_; }
  bool manual() const { return config_.progress == ProgressMode::kManual; }
  bool inherited() const noexcept { return fork_guard_.inherited(); }
  OperationRing& operations() { return operations_; }
  Activity& activity() { return activity_; }
  EventQueue& events() { return events_; }
  // How kernels of this context's objects run: with its threads, which all of them share. Any
  // thread.
  kernels::Execution execution() const { return {.workers = workers_.get()}; }

  // Manual mode. The number of events handled; kInvalidState with a progress thread.
  Result<uint32_t> do_work();
  // Manual mode: one round as the owner, sleeping until `deadline` if idle. False: another thread
  // is the owner just now.
  bool try_step(Nanoseconds deadline);
  // Runs `function` as the progress owner, after every operation posted before; returns when done.
  template <typename Function>
  void run(Function&& function);
  // Only inside `run`.
  Progress& progress_st() { return progress_; }

  // Blocks until an event is there or `deadline`; hands at most `capacity` of them to `sink`.
  // kTimeout: none. Allocates nothing but for the text of peer events.
  Code poll(EventSink& sink, uint32_t capacity, Nanoseconds deadline);

  Status add_port(Pollable* port);  // kNoMemory beyond kMaxPorts
  void remove_port(Pollable* port);
  void add_counters(const CounterSource* source);
  void remove_counters(const CounterSource* source);
  std::vector<Counter> read_counters() const;

  // One mesh at a time: claimed before it joins, released when all of it is gone; in between it is
  // shown to `with_mesh` while it can answer.
  bool claim_mesh() noexcept { return !mesh_claimed_.exchange(true, std::memory_order_acquire); }
  void release_mesh() noexcept { mesh_claimed_.store(false, std::memory_order_release); }
  void show_mesh(MeshSession* session);  // null: no more, and nobody is looking at it
  template <typename Function>
  void with_mesh(Function&& function) const {
    const std::scoped_lock lock(registry_mutex_);
    if (mesh_ != nullptr) function(*mesh_);
  }

 private:
  explicit Context(const ContextConfig& config);

  Status start_workers();
  uint32_t collect_events(EventSink& sink, uint32_t capacity);
  void acquire_owner() noexcept;
  bool try_acquire_owner() noexcept {
    return !owner_taken_.exchange(true, std::memory_order_acquire);
  }
  void release_owner() noexcept { owner_taken_.store(false, std::memory_order_release); }

  const ContextConfig config_;
  const ForkGuard fork_guard_;
  const SteadyClock clock_;
  LogTarget log_target_;
  const Logger logger_;
  OperationRing operations_;
  Activity activity_;
  EventQueue events_;
  Progress progress_;
  std::atomic<bool> owner_taken_{false};  // manual mode
  std::atomic<bool> mesh_claimed_{false};
  mutable std::mutex registry_mutex_;  // of the three below; never taken by the owner
  std::vector<Pollable*> ports_;
  std::vector<const CounterSource*> counters_;
  MeshSession* mesh_ = nullptr;
  std::unique_ptr<kernels::Workers> workers_;  // null: the caller's thread alone
  std::unique_ptr<ProgressThread> thread_;     // last: it uses what is above
};

template <typename Function>
void Context::run(Function&& function) {
  OwnerCall<std::remove_reference_t<Function>> call(function);
  if (thread_ != nullptr) {
    operations_.post({nullptr, &call});
  } else {
    acquire_owner();
    progress_.drain_operations_st();
    call.run_st();
    call.finish_st();
    release_owner();
  }
  call.wait();
}

}  // namespace asyncmesh::core
