#include "core/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "core/waiter.h"

namespace asyncmesh::core {

Context::Context(const ContextConfig& config)
    : config_(config),
      log_target_(config.log_fd, config.log_level),
      logger_(log_target_.logger()),
      progress_(clock_, operations_, activity_) {}

Result<std::shared_ptr<Context>> Context::create(const ContextConfig& config) {
  std::shared_ptr<Context> context(new Context(config));
  ASYNCMESH_RETURN_IF_ERROR(context->operations_.open());
  ASYNCMESH_RETURN_IF_ERROR(context->start_workers());
  if (!context->manual()) {
    context->thread_ = std::make_unique<ProgressThread>(context->progress_, context->operations_,
                                                        context->logger_);
    ASYNCMESH_RETURN_IF_ERROR(context->thread_->start(config.progress_cpu));
  }
  return context;
}

Status Context::start_workers() {
  const uint32_t count = config_.kernel_threads;
  if (count < 1 || count > kMaxKernelThreads)
    return Status(Code::kInvalidArgument,
                  fmt::format("kernel_threads {} is not in 1..{}", count, kMaxKernelThreads));
  if (count == 1) return {};
  workers_ = kernels::make_thread_team(count);
  if (workers_ == nullptr)
    return Status(Code::kSystem, fmt::format("the system gives no {} kernel threads", count));
  return {};
}

Context::~Context() {
  if (inherited() && thread_ != nullptr) thread_->abandon();
}

Result<uint32_t> Context::do_work() {
  if (!manual())
    return Status(Code::kInvalidState, "this context has a progress thread: do_work is its own");
  if (!try_acquire_owner()) return uint32_t{0};
  uint32_t events = 0;
  try {
    events = progress_.do_work_st();
  } catch (...) {
    release_owner();
    throw;
  }
  release_owner();
  return events;
}

bool Context::try_step(Nanoseconds deadline) {
  if (!try_acquire_owner()) return false;
  try {
    progress_.step_st(deadline);
  } catch (const std::exception& error) {
    logger_.write(LogLevel::kError, error.what());
  }
  release_owner();
  return true;
}

void Context::acquire_owner() noexcept {
  while (!try_acquire_owner()) {
    operations_.bell().ring();  // the owner may sleep
    std::this_thread::yield();
  }
}

Status Context::add_port(Pollable* port) {
  const std::scoped_lock lock(registry_mutex_);
  if (ports_.size() >= kMaxPorts)
    return Status(Code::kNoMemory, "a context has no room for more than 2048 ports");
  ports_.push_back(port);
  return {};
}

void Context::remove_port(Pollable* port) {
  const std::scoped_lock lock(registry_mutex_);
  std::erase(ports_, port);
}

void Context::add_counters(const CounterSource* source) {
  const std::scoped_lock lock(registry_mutex_);
  counters_.push_back(source);
}

void Context::remove_counters(const CounterSource* source) {
  const std::scoped_lock lock(registry_mutex_);
  std::erase(counters_, source);
}

std::vector<Counter> Context::read_counters() const {
  std::vector<Counter> counters;
  const std::scoped_lock lock(registry_mutex_);
  for (const CounterSource* source : counters_) source->read_counters(counters);
  return counters;
}

void Context::show_mesh(MeshSession* session) {
  const std::scoped_lock lock(registry_mutex_);
  mesh_ = session;
}

uint32_t Context::collect_events(EventSink& sink, uint32_t capacity) {
  uint32_t count = 0;
  Event event;
  for (; count < capacity && events_.pop(&event); ++count) sink.put(event);
  const std::scoped_lock lock(registry_mutex_);
  Event ready;
  for (Pollable* port : ports_) {
    if (count == capacity) break;
    if (!port->ready()) continue;
    ready.port_key = port->key();
    sink.put(ready);
    ++count;
  }
  return count;
}

Code Context::poll(EventSink& sink, uint32_t capacity, Nanoseconds deadline) {
  if (manual()) try_step(0);
  CoreWaiter waiter(*this);
  for (;;) {
    if (collect_events(sink, capacity) != 0) return Code::kOk;
    const Code code = waiter.wait(deadline);
    if (code != Code::kOk) return collect_events(sink, capacity) != 0 ? Code::kOk : code;
  }
}

}  // namespace asyncmesh::core
